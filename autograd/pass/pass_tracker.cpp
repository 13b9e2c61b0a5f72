#include "troupe/autograd/pass/pass_tracker.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "troupe/actors/node/node.hpp"
#include "troupe/actors/node/node_core.hpp"

namespace troupe::autograd::detail {

pass_tracker::pass_tracker(node_core& here, std::uint64_t first)
    : peers_(here.peers()),
      over_(std::make_shared<troupe::detail::future_state<void>>(here.driver())) {
  caused(first, here.self().id, here.self().id);
}

// Its end may have been reported before its cause: then this closes it instead of opening it.
void pass_tracker::caused(std::uint64_t number, std::uint32_t from, std::uint32_t to) {
  auto& one = steps_[number];
  if (std::exchange(one.caused, true)) return;
  one.over ? --open_ : ++open_;
  one.from = from;
  one.to = to;
}

void pass_tracker::add(step_report&& report) {
  std::vector<const peer*> lost;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    auto& mine = steps_[report.step];
    if (std::exchange(mine.over, true)) return;
    mine.caused ? --open_ : ++open_;
    const auto from = report.standing.rank;
    for (const auto& next : report.caused) {
      caused(next.step, from, next.rank);
      if (!steps_[next.step].under_way()) continue;
      // `evict` came for one of both before this report showed that it matters?
      for (const auto rank : {from, next.rank})
        if (const auto* one = peers_.find(rank); one && !one->live()) lost.push_back(one);
    }
    auto& known = standings_[from];
    if (known.arrivals <= report.standing.arrivals) known = std::move(report.standing);
    ended_ = open_ == 0 || !lost.empty();
    if (!ended_) return;
  }
  // Without the lock: what waits for the round may run in this call.
  if (lost.empty())
    over_.state().set_value();
  else
    fail(std::make_exception_ptr(peer_lost(lost.front()->loss())));
}

void pass_tracker::fail(std::exception_ptr why) {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  over_.state().set_exception(std::move(why));
}

void pass_tracker::evict(const peer& lost) {
  {
    const std::lock_guard lock(mutex_);
    const auto touched = [&](const auto& one) {
      const auto& step = one.second;
      return step.under_way() && (step.from == lost.rank() || step.to == lost.rank());
    };
    if (std::none_of(steps_.begin(), steps_.end(), touched)) return;
  }
  fail(std::make_exception_ptr(peer_lost(lost.loss())));
}

}  // namespace troupe::autograd::detail
