#include "troupe/actors/future/timer_futures.hpp"

#include "troupe/actors/scheduler/engine.hpp"

namespace troupe {

future<void> sleepers::add(const std::shared_ptr<engine>& driver, clock::time_point until) {
  auto made = std::make_shared<detail::future_state<void>>(driver);
  {
    const std::lock_guard guard(mutex_);
    if (!ended_) {
      waiting_.emplace(until, made);
      // The engine's timer lock is taken after this one; `run_due` is called without it.
      if (until != never) driver->set_timer(until);
      return future<void>(std::move(made));
    }
  }
  made->set_exception(to_exception(*ended_));
  return future<void>(std::move(made));
}

void sleepers::remove(const future<void>& one, clock::time_point until) {
  state last;  // destroyed, with its continuations, after the lock is released
  const std::lock_guard guard(mutex_);
  const auto [begin, end] = waiting_.equal_range(until);
  for (auto at = begin; at != end; ++at) {
    if (at->second != one.shared()) continue;
    last = std::move(at->second);
    waiting_.erase(at);
    return;
  }
}

clock::time_point sleepers::run_due(clock::time_point now) {
  std::vector<state> due;
  auto next = never;
  {
    const std::lock_guard guard(mutex_);
    const auto end = waiting_.upper_bound(now);
    for (auto at = waiting_.begin(); at != end; ++at) due.push_back(std::move(at->second));
    waiting_.erase(waiting_.begin(), end);
    if (!waiting_.empty()) next = waiting_.begin()->first;
  }
  for (const auto& one : due) one->set_value();
  return next;
}

void sleepers::end(const fault& why) {
  std::multimap<clock::time_point, state> waiting;
  {
    const std::lock_guard guard(mutex_);
    ended_ = why;
    waiting.swap(waiting_);
  }
  for (const auto& [until, one] : waiting) one->set_exception(to_exception(why));
}

}  // namespace troupe
