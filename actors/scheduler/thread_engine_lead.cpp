// How the thread that leads drives the network, runs handlers, and goes to sleep.

#include <poll.h>

#include <algorithm>
#include <caf/scheduled_actor.hpp>

#include "troupe/actors/scheduler/thread_engine_internal.hpp"
#include "troupe/actors/scheduler/torch_thread_state.hpp"

namespace troupe {

namespace {

int milliseconds_until(clock::time_point deadline) {
  if (deadline == never) return -1;
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
  return static_cast<int>(std::clamp<long>(left, 0, 3'600'000));
}

}  // namespace

// Hot path: no lock and no system call while there is traffic.
unsigned thread_engine::poll(engine_unit& unit) {
  // Before the look: a send that comes later sets it again. A load, as there is mostly nothing; the
  // exchange acquires what was sent.
  if (wants_progress_.load(std::memory_order_relaxed)) wants_progress_.exchange(false);
  unsigned events = net_->progress();
  // Here a hint: `local_mutex_` publishes the messages.
  if (have_local_.load(std::memory_order_seq_cst)) {
    std::lock_guard guard(local_mutex_);
    for (auto& message : local_) inbox_.push_back({std::move(message), nullptr});
    local_.clear();
    have_local_.store(false, std::memory_order_seq_cst);
  }
  const bool inline_handlers = may_run_inline(unit);
  while (!inbox_.empty()) {
    auto [message, lost] = std::move(inbox_.front());
    inbox_.pop_front();
    ++events;
    if (lost) {
      const libtorch_untouched here;  // of a program's thread that leads while it waits
      client_.peer_lost(message.from, *lost);
      continue;
    }
    // From before it counts as received until what it has brought is queued or counts itself: see
    // `quiet`.
    running_.fetch_add(1, std::memory_order_relaxed);
    {
      const libtorch_untouched here;
      unit.collecting_ = inline_handlers;
      client_.dispatch(std::move(message), unit);
      unit.collecting_ = false;
    }
    auto* item = std::exchange(unit.next_, nullptr);
    // A call that `dispatch` has run may have lost the role.
    if (item && unit.key_ == 0) push(std::exchange(item, nullptr));
    if (item) begin_handler(unit);
    running_.fetch_sub(1, std::memory_order_release);
    if (item) {
      run(item, unit);
      end_handler(unit);
    }
    if (unit.key_ == 0) return events;
  }
  return events;
}

void thread_engine::lead(engine_unit& unit) {
  empty_polls idle(placement_);
  while (!stopping_.load(std::memory_order_relaxed)) {
    auto events = poll(unit);
    if (unit.key_ == 0) return;
    if (auto* item = take_item()) {
      ++events;
      begin_handler(unit);
      running_.fetch_sub(1, std::memory_order_relaxed);  // it counts as a handler now
      run(item, unit);
      end_handler(unit);
      if (unit.key_ == 0) return;
    }
    if (events > 0) {
      idle.forget();
      continue;
    }
    if (wanted_.load(std::memory_order_relaxed) > 0) break;
    switch (idle.one_more([this] { return spin(); }, options_.yield_after)) {
      case empty_polls::next::poll: break;
      case empty_polls::next::yield:
        put_off_takeover(idle.now());
        role_.enter(unit.key_, leader_role::yielding);
        idle.yield();
        if (role_.resume(unit.key_, leader_role::yielding)) break;
        unit.key_ = 0;
        return;
      case empty_polls::next::sleep:
        if (!sleep_in_network(unit, never, idle.since())) return;
        idle.forget();
        break;
    }
  }
  hand_back(unit);
}

void thread_engine::hand_back(engine_unit& unit) {
  role_.release(std::exchange(unit.key_, 0));
  find_leader();
}

// No thread leads: wakes a waiter to do so, or else, a little later, the timer thread.
void thread_engine::find_leader() {
  // The role was freed before. `park_waiter` counts itself and then looks at the role: one of the
  // two sees the other.
  if (waiter_count_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard guard(waiters_mutex_);
    if (!waiters_.empty()) {
      waiters_.front()->wake_waiter();
      return;
    }
  }
  arm_takeover();
}

std::chrono::microseconds thread_engine::spin() const {
  const auto usual =
      spin_policy_.waits_are_brief() && !placement_.taken() ? options_.spin_busy : options_.spin;
  return net_->idle() ? usual : std::max(usual, options_.spin_sending);
}

// Announces the sleep before the last look for work, as those who bring work look at the role after
// they have put it down: one of the two sees the other. False: the role is lost.
bool thread_engine::sleep_in_network(engine_unit& unit, clock::time_point deadline,
                                     clock::time_point waits_since) {
  if (!net_->arm()) return true;
  role_.enter(unit.key_, leader_role::asleep);
  const bool network_thread = may_run_inline(unit);
  const bool work = have_local_.load(std::memory_order_seq_cst) || wants_progress_.load() ||
                    stopping_.load() || (network_thread && have_items()) ||
                    (unit.awaited_ && unit.awaited_->ready());
  pollfd ready{net_->event_fd(), POLLIN, 0};
  const bool heard = !work && ::poll(&ready, 1, milliseconds_until(deadline)) > 0;
  if (role_.resume(unit.key_, leader_role::asleep)) {
    if (heard) spin_policy_.add_wait(clock::now() - waits_since);
    return true;
  }
  unit.key_ = 0;
  return false;
}

void thread_engine::begin_handler(engine_unit& unit) {
  unit.collecting_ = false;
  handler_number_.fetch_add(1, std::memory_order_relaxed);
  running_.fetch_add(1, std::memory_order_relaxed);
  role_.enter(unit.key_, leader_role::handler);
  arm_takeover();  // after `enter`, or the timer thread could miss this handler
  client_.prepare_thread();
  self.may_block = true;
}

void thread_engine::end_handler(engine_unit& unit) {
  if (forked::from_nodes()) forked::end_handler("a handler");
  self.may_block = false;
  running_.fetch_sub(1, std::memory_order_release);  // see `quiet`
  if (unit.key_ != 0) resume_after_handler(unit);
}

void thread_engine::resume_after_handler(engine_unit& unit) {
  if (role_.resume(unit.key_, leader_role::handler)) return;
  unit.key_ = 0;
  rate_takeover();
}

std::uint64_t thread_engine::begin_network_work() noexcept {
  if (self.owner != this || self.unit->key_ == 0) return 0;
  return role_.resume(self.unit->key_, leader_role::handler) ? self.unit->key_ : 0;
}

void thread_engine::end_network_work(std::uint64_t key) noexcept {
  handler_number_.fetch_add(1, std::memory_order_relaxed);  // its time begins anew
  role_.enter(key, leader_role::handler);
  arm_takeover();
}

void thread_engine::run(caf::resumable* item, engine_unit& unit) {
  constexpr std::size_t most_messages = 64;  // of one actor, before others get the thread
  if (item->subtype() == caf::resumable::scheduled_actor)
    self.actor = static_cast<caf::scheduled_actor*>(item);
  const auto left = client_.resume(*item, unit, most_messages);
  self.actor = nullptr;
  switch (left) {
    case caf::resumable::resume_later: push(item); break;
    case caf::resumable::done:
    case caf::resumable::awaiting_message: intrusive_ptr_release(item); break;
    case caf::resumable::shutdown_execution_unit: break;
  }
}

}  // namespace troupe
