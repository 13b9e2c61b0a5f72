// How a thread waits: it leads meanwhile, or parks beside others; the end of the node releases it.

#include <algorithm>
#include <thread>

#include "troupe/actors/scheduler/thread_engine_internal.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe {

bool thread_engine::wait(completion& what, clock::time_point deadline) {
  if (what.ready()) return true;
  forked::check();
  // A handler of another node does not drive this one: the end of its own node must release it.
  if (!self.owner || self.owner == this) {
    gate::pass pass(waits_);
    if (pass) drive_until(what, deadline);
  }
  return what.ready() || wait_without_network(what, deadline);
}

// Called on a thread of this engine.
bool thread_engine::block_until(completion& what, clock::time_point deadline) {
  forked::check();
  gate::pass pass(waits_);
  {
    std::lock_guard guard(waiters_mutex_);
    held_.push_back(&what);
  }
  bool late = false;
  for (;;) {
    auto wakes = what.wakes();
    late = deadline != never && clock::now() >= deadline;
    if (what.ready() || late || waits_.closed()) break;
    what.park_unless_woken(wakes, deadline);
  }
  {
    std::lock_guard guard(waiters_mutex_);
    held_.erase(std::find(held_.begin(), held_.end(), &what));
  }
  if (what.ready() || late) return what.ready();
  throw not_initialized("the node has been shut down");
}

// Returns when `what` is ready, the deadline has passed or the waits have ended.
void thread_engine::drive_until(completion& what, clock::time_point deadline) {
  engine_unit unit(*this);
  if (auto* system = system_.load()) unit.attach(*system);
  unit.awaited_ = &what;
  unit.expected_ = self.expected;
  const auto* const host = self.host && &self.host->owner_ == this ? self.host
                           : is_own_thread()                       ? self.unit
                                                                   : nullptr;
  const auto own_key = host ? host->key_ : 0;
  // Lets a network thread lead, which can run the handlers that keep arriving.
  bool patient = what.is_made_here();
  bool parked = false;
  while (!what.ready() && !waits_.closed()) {
    if (deadline != never && clock::now() >= deadline) break;
    auto seen = role_.look();
    const bool mine = own_key != 0 && seen == leader_role::in(own_key, leader_role::handler);
    leader_role::snapshot key = 0;
    if (mine || (!patient && leader_role::idle(seen)))
      key = role_.take(seen, leader_role::waiter);
    else if (!patient && leader_role::by_network_thread(seen) &&
             leader_role::state_of(seen) == leader_role::leading)
      ask_for_role(what, key);
    if (key != 0) {
      unit.key_ = key;
      self.may_block = false;
      lead_while_waiting(what, deadline, unit);
      self.may_block = true;
      patient = unit.handed_on_ >= 2;
    } else if (!what.ready()) {
      park_waiter(what, deadline);
      parked = true;
      if (leader_role::state_of(role_.look()) == leader_role::free) patient = false;
    }
  }
  // This thread may have been woken to lead, and does not wait any more: another one must.
  if (parked && leader_role::state_of(role_.look()) == leader_role::free) find_leader();
}

// Drives the network until `what` is ready, the deadline passes, the waits end, the role is lost,
// or it turns out that this node serves others meanwhile.
void thread_engine::lead_while_waiting(completion& what, clock::time_point deadline,
                                       engine_unit& unit) {
  empty_polls idle(placement_);
  unsigned busy = 0;
  // What this thread's own handler has left in the queue goes to other threads now.
  if (have_items()) summon_runner();
  for (;;) {
    auto events = poll(unit);
    if (unit.key_ == 0) return;
    if (what.ready() || waits_.closed()) break;
    if (unit.handed_on_ >= 2 && occupied_.load() < most_handlers()) {
      handed_over_.store(true);
      role_.release(std::exchange(unit.key_, 0));
      if (!wake_parked()) wake_timer_thread();
      return;
    }
    if (events > 0) {
      idle.forget();
      if (++busy % 16 == 0 && deadline != never && clock::now() >= deadline) break;
      continue;
    }
    const auto next = idle.one_more([this] { return spin(); }, options_.yield_after);
    if (idle.now() >= deadline) break;
    if (next == empty_polls::next::sleep) {
      if (!sleep_in_network(unit, deadline, idle.since())) return;
      idle.forget();
    } else if (next == empty_polls::next::yield) {
      put_off_takeover(idle.now());
      idle.yield();
    }
  }
  hand_back(unit);
}

void thread_engine::run_expected(engine_unit& unit, void (*body)(void*), void* what) {
  handler_number_.fetch_add(1, std::memory_order_relaxed);
  auto* const host = std::exchange(self.host, &unit);
  auto* const actor = std::exchange(self.actor, nullptr);
  const auto* const expected = std::exchange(self.expected, nullptr);
  role_.enter(unit.key_, leader_role::handler);
  arm_takeover();
  {
    const foreign_run_scope here(*this);
    client_.run_between([&] {
      self.may_block = true;
      body(what);
      if (forked::from_nodes()) forked::end_handler("a handler");
      self.may_block = false;
    });
  }
  self.expected = expected;
  self.host = host;
  self.actor = actor;
  resume_after_handler(unit);
}

// A network thread that leads and has nothing to do gives way to a waiter: that saves the wake-up
// of the waiter later, for this answer and for all that follow. So its next look at the network is
// worth waiting for, which is many system calls where that is TCP: being woken costs more.
bool thread_engine::ask_for_role(completion& what, leader_role::snapshot& key) {
  wanted_.fetch_add(1);
  const auto start = clock::now();
  while (!what.ready() && key == 0) {
    const auto seen = role_.look();
    if (leader_role::idle(seen)) {
      key = role_.take(seen, leader_role::waiter);
      continue;
    }
    const bool looks =
        leader_role::by_network_thread(seen) && leader_role::state_of(seen) == leader_role::leading;
    const auto asked = clock::now() - start;
    if (asked > (looks ? options_.ask_for_role : options_.yield_after)) break;
    // It may be waiting for this processor.
    if (asked > options_.yield_after) std::this_thread::yield();
  }
  wanted_.fetch_sub(1);
  return key != 0;
}

void thread_engine::park_waiter(completion& what, clock::time_point deadline) {
  auto wakes = what.wakes();
  {
    std::lock_guard guard(waiters_mutex_);
    waiters_.push_back(&what);
    // Before it looks at the role, see `find_leader`.
    waiter_count_.fetch_add(1, std::memory_order_seq_cst);
  }
  // A thread that frees the role from now on wakes a waiter. Was it freed before?
  auto state = leader_role::state_of(role_.look());
  if (state != leader_role::free || handed_over_.load()) what.park_unless_woken(wakes, deadline);
  std::lock_guard guard(waiters_mutex_);
  waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &what));
  waiter_count_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace troupe
