#include "apps/batch/team.hpp"

namespace batch {

std::vector<troupe::worker_info> homes(const troupe::node& node) {
  auto others = node.workers().others();
  if (others.empty())
    throw troupe::invalid_argument(
        "rank 0 serves, and there is no other rank for those whom it serves: start 2 ranks or "
        "more, as with troupe-run -n 3");
  return others;
}

}  // namespace batch
