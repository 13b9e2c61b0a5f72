#include "troupe/actors/future/wait_all.hpp"

#include <algorithm>
#include <iterator>

#include "troupe/actors/sync/futex.hpp"

namespace troupe::detail {

void calls_to_await::add(std::shared_ptr<future_core> call) {
  // Destroyed last: the destructor of a value may make calls, which enter here.
  std::vector<std::shared_ptr<future_core>> answered;
  if (calls_.size() >= most_) {
    const auto first = std::stable_partition(calls_.begin(), calls_.end(), [](const auto& one) {
      return !one->ready() || one->failure();
    });
    answered.assign(std::move_iterator(first), std::move_iterator(calls_.end()));
    calls_.erase(first, calls_.end());
    most_ = std::max<std::size_t>(64, 2 * calls_.size());
  }
  calls_.push_back(std::move(call));
}

std::exception_ptr calls_to_await::end() noexcept {
  leave();
  std::exception_ptr first;
  for (const auto& call : std::exchange(calls_, {})) {
    std::exception_ptr why;
    try {
      call->wait_until(never, call);
      why = call->failure();
    } catch (...) {  // the node has ended, or the wait is a deadlock
      why = std::current_exception();
    }
    if (!first) first = why;
  }
  return first;
}

}  // namespace troupe::detail
