#include "autograd/pass_watch.hpp"

#include <algorithm>

#include "actors/peers.hpp"

namespace troupe::autograd::detail {

pass_watch::pass_watch(std::shared_ptr<engine> driver, std::uint64_t first, std::uint32_t here)
    : over_(std::make_shared<troupe::detail::future_state<void>>(std::move(driver))),
      under_way_{{first, {here, here}}} {}

void pass_watch::add(step_report&& one) {
  {
    const std::lock_guard lock(mutex_);
    if (under_way_.erase(one.step) == 0) early_.insert(one.step);
    for (const auto& next : one.caused)
      if (early_.erase(next.step) == 0)
        under_way_.emplace(next.step, way{one.standing.rank, next.rank});
    auto& known = standings_[one.standing.rank];
    if (known.arrivals <= one.standing.arrivals) known = std::move(one.standing);
    if (!under_way_.empty() || !early_.empty()) return;
  }
  over_.state().set_value();
}

void pass_watch::fail(std::exception_ptr why) { over_.state().set_exception(std::move(why)); }

void pass_watch::bury(const peer& whom) {
  {
    const std::lock_guard lock(mutex_);
    const auto touched = [&](const auto& one) {
      return one.second.from == whom.rank() || one.second.to == whom.rank();
    };
    if (std::none_of(under_way_.begin(), under_way_.end(), touched)) return;
  }
  fail(std::make_exception_ptr(peer_lost(whom.loss())));
}

}  // namespace troupe::autograd::detail
