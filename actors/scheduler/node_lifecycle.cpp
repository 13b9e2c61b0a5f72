#include "troupe/actors/scheduler/node_lifecycle.hpp"

namespace troupe {

void node_lifecycle::check_open() const {
  forked::check();
  if (open_.load(std::memory_order_acquire)) return;
  if (const auto ended = end_of_job()) std::rethrow_exception(to_exception(*ended));
  throw not_initialized(
      "RPC has not been initialized, or has been shut down. Call init_rpc first.");
}

void node_lifecycle::job_ended(const fault& why) {
  {
    const std::lock_guard lock(mutex_);
    ended_ = why;
  }
  close();
}

std::optional<fault> node_lifecycle::end_of_job() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

}  // namespace troupe
