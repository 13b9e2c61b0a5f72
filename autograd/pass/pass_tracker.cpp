#include "troupe/autograd/pass/pass_tracker.hpp"

#include <algorithm>

namespace troupe::autograd::detail {

pass_watch::pass_watch(node_core& here, std::uint64_t first)
    : peers_(here.actors().peers()),
      over_(std::make_shared<troupe::detail::future_state<void>>(here.driver())) {
  caused(first, here.self().id, here.self().id);
}

// One step may count as open or not before, by what has come first.
void pass_watch::caused(std::uint64_t number, std::uint32_t from, std::uint32_t to) {
  auto& one = steps_[number];
  if (std::exchange(one.caused, true)) return;
  one.over ? --open_ : ++open_;
  one.from = from;
  one.to = to;
}

void pass_watch::add(step_report&& report) {
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
      // Buried before it was known here that it matters?
      for (const auto rank : {from, next.rank})
        if (const auto* who = peers_.find(rank); who && !who->live()) lost.push_back(who);
    }
    auto& known = standings_[from];
    if (known.arrivals <= report.standing.arrivals) known = std::move(report.standing);
    ended_ = open_ == 0 || !lost.empty();
    if (!ended_) return;
  }
  if (lost.empty())
    over_.state().set_value();
  else
    fail(std::make_exception_ptr(peer_lost(lost.front()->loss())));
}

void pass_watch::fail(std::exception_ptr why) {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  over_.state().set_exception(std::move(why));
}

void pass_watch::evict(const peer& whom) {
  {
    const std::lock_guard lock(mutex_);
    const auto touched = [&](const auto& one) {
      const auto& step = one.second;
      return step.under_way() && (step.from == whom.rank() || step.to == whom.rank());
    };
    if (std::none_of(steps_.begin(), steps_.end(), touched)) return;
  }
  fail(std::make_exception_ptr(peer_lost(whom.loss())));
}

}  // namespace troupe::autograd::detail
