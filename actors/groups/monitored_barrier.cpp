#include "troupe/actors/groups/monitored_barrier.hpp"

#include "troupe/actors/groups/process_group/group_core.hpp"

namespace troupe {

void monitored_barrier(const process_group& group, std::chrono::milliseconds timeout,
                       bool wait_all_ranks) {
  auto* const in = group.member("monitored_barrier");
  if (!in) return;
  if (timeout.count() < 0) throw invalid_argument("the timeout of a monitored barrier is negative");
  in->monitored_barrier(timeout.count() > 0 ? timeout : in->timeout(), wait_all_ranks);
}

}  // namespace troupe
