#include "actors/engine.hpp"

#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <caf/scheduled_actor.hpp>
#include <system_error>

#include "actors/current.hpp"
#include "messages/error.hpp"

namespace troupe {

namespace {

// What the calling thread is to the engine it belongs to.
struct thread_identity {
  engine* owner = nullptr;
  engine_unit* unit = nullptr;
};
thread_local thread_identity self;

constexpr auto never = clock::time_point::max();
constexpr unsigned polls_per_look = 16;  // empty ones, from one look at the clock to the next

// Between two empty polls: leaves the core to its other hyperthread, which may be who we wait for.
void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

int milliseconds_until(clock::time_point deadline) {
  if (deadline == never) return -1;
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
  return static_cast<int>(std::clamp<long>(left, 0, 3'600'000));
}

}  // namespace

void engine_unit::exec_later(caf::resumable* job) {
  if (collecting_ && !next_) {
    next_ = job;
  } else {
    ++handed_on_;
    owner_.push(job);
  }
}

engine::engine(dispatcher& client, engine_options options) : client_(client), options_(options) {
  open_timers();
}

engine::~engine() { close_timers(); }

void engine::start(transport::transport& net) {
  net_ = &net;
  handed_over_ = true;
  spawn();
  spawn();
  if (thread_count_ < 2)
    throw std::system_error(EAGAIN, std::generic_category(), "the threads of a node");
}

void engine::attach(caf::actor_system& system) { system_.store(&system); }

bool engine::is_own_thread() const noexcept { return self.owner == this; }

void engine::on_message(transport::incoming_message&& message) {
  inbox_.push_back(std::move(message));
}

void engine::on_peer_lost(transport::rank_t peer, std::string reason) {
  lost_.emplace_back(peer, std::move(reason));
}

void engine::deliver_locally(transport::incoming_message&& message) {
  {
    std::lock_guard guard(local_mutex_);
    local_.push_back(std::move(message));
    have_local_.store(true, std::memory_order_seq_cst);
  }
  nudge();
}

void engine::nudge() {
  auto seen = role_.look();
  if (leader_role::state_of(seen) == leader_role::asleep) net_->wake();
  if (leader_role::state_of(seen) == leader_role::free) arm_takeover();
}

void engine::push(caf::resumable* job) {
  queue_.push(job);
  summon_runner();
}

bool engine::push_if_open(caf::resumable* job) {
  gate::pass pass(entrance_);
  if (!pass) return false;
  push(job);
  return true;
}

// Somebody must come to the queue. A network thread that leads looks at it before each sleep; one
// in a handler does so afterwards, or loses the network to a thread that does.
void engine::summon_runner() {
  auto seen = role_.look();
  if (leader_role::by_network_thread(seen)) {
    switch (leader_role::state_of(seen)) {
      case leader_role::leading:
      case leader_role::yielding: return;
      case leader_role::asleep: net_->wake(); return;
      case leader_role::handler:
        if (self.owner == this && self.unit->key_ != 0 &&
            seen == leader_role::in(self.unit->key_, leader_role::handler))
          return;
        break;
      case leader_role::free: break;
    }
  }
  if (!wake_parked()) poke_minder();
}

void engine::finish(completion& what) {
  what.complete();
  // A waiter that leads and sleeps hears of the network only.
  auto seen = role_.look();
  if (leader_role::by_network_thread(seen) || leader_role::state_of(seen) != leader_role::asleep)
    return;
  // After the stop there is neither such a waiter nor a network.
  if (gate::pass pass(entrance_); pass) net_->wake();
}

void engine::thread_main() {
  pthread_setname_np(pthread_self(), "troupe");
  engine_unit unit(*this);
  self = {this, &unit};
  while (!stopping_) {
    if (auto* system = system_.load()) unit.attach(*system);
    if (handed_over_.exchange(false)) {
      // Not from a waiter that has taken it meanwhile and sleeps: see `idle`.
      if (auto seen = role_.look(); leader_role::idle(seen))
        unit.key_ = role_.take(seen, leader_role::network_thread);
    } else if (auto* job = take_job()) {
      ensure_minder();
      client_.prepare_thread();
      run(job, unit);
      running_.fetch_sub(1, std::memory_order_release);
    } else if (!minded_.exchange(true)) {
      unit.key_ = mind();
      minded_.store(false, std::memory_order_seq_cst);
    } else if (!park()) {
      break;
    }
    if (unit.key_ != 0) {
      ensure_minder();
      lead(unit);
    }
  }
  run_what_is_left(unit);
  self = {};
  thread_count_.fetch_sub(1);
}

// At the stop. Whoever pushes a job from now on runs it here itself.
void engine::run_what_is_left(engine_unit& unit) {
  while (auto* job = take_job()) {
    if (job->subtype() == caf::resumable::function_object) {
      client_.prepare_thread();
      run(job, unit);
    } else {
      dropped_.push(job);
    }
    running_.fetch_sub(1, std::memory_order_release);
  }
}

engine::census engine::count() const {
  return {thread_count_.load(), static_cast<unsigned>(std::max(parked_count_.load(), 0)),
          queue_.empty()};
}

// Counted as running before it leaves the queue, so that `quiet` sees it in one place or the other.
caf::resumable* engine::take_job() {
  if (queue_.empty()) return nullptr;
  running_.fetch_add(1, std::memory_order_seq_cst);
  auto* job = queue_.try_pop();
  if (!job) running_.fetch_sub(1, std::memory_order_relaxed);
  return job;
}

bool engine::quiet() const noexcept {
  const int own = is_own_thread() ? 1 : 0;
  return running_.load() == own && queue_.empty() && !have_local_.load() && running_.load() == own;
}

// ---- Leading
// ----------------------------------------------------------------------------------------

// Hot path: no lock and no system call while there is traffic.
unsigned engine::poll(engine_unit& unit) {
  unsigned events = net_->progress();
  if (have_local_.load(std::memory_order_seq_cst)) {
    std::lock_guard guard(local_mutex_);
    for (auto& message : local_) inbox_.push_back(std::move(message));
    local_.clear();
    have_local_.store(false, std::memory_order_seq_cst);
  }
  while (!lost_.empty()) {
    auto [peer, reason] = std::move(lost_.front());
    lost_.pop_front();
    client_.peer_lost(peer, reason);
    ++events;
  }
  const bool inline_handlers = may_run_inline(unit);
  while (!inbox_.empty()) {
    auto message = std::move(inbox_.front());
    inbox_.pop_front();
    ++events;
    unit.collecting_ = inline_handlers;
    client_.dispatch(std::move(message), unit);
    unit.collecting_ = false;
    if (auto* job = std::exchange(unit.next_, nullptr)) {
      // A dispatched call may have cost the role already.
      if (unit.key_ == 0) {
        push(job);
      } else {
        begin_handler(unit);
        run(job, unit);
        end_handler(unit);
      }
    }
    if (unit.key_ == 0) break;
  }
  return events;
}

void engine::lead(engine_unit& unit) {
  clock::time_point quiet_since;
  unsigned empty_polls = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    auto events = poll(unit);
    if (unit.key_ == 0) return;
    if (auto* job = take_job()) {
      ++events;
      begin_handler(unit);
      running_.fetch_sub(1, std::memory_order_relaxed);  // it counts as a handler now
      run(job, unit);
      end_handler(unit);
      if (unit.key_ == 0) return;
    }
    if (events > 0) {
      empty_polls = 0;
      continue;
    }
    if (wanted_.load(std::memory_order_relaxed) > 0) break;
    pause();
    if (++empty_polls % polls_per_look != 0) continue;
    auto now = clock::now();
    if (empty_polls == polls_per_look) quiet_since = now;
    if (now - quiet_since > spin()) {
      if (!sleep_in_network(unit, never)) return;
      empty_polls = 0;
    } else if (now - quiet_since > options_.yield_after) {
      role_.enter(unit.key_, leader_role::yielding);
      sched_yield();
      if (!role_.resume(unit.key_, leader_role::yielding)) {
        unit.key_ = 0;
        return;
      }
    }
  }
  hand_back(unit);
}

void engine::hand_back(engine_unit& unit) {
  role_.release(std::exchange(unit.key_, 0));
  find_leader();
}

// Nobody leads: a waiter shall, or else the minder.
void engine::find_leader() {
  if (waiter_count_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard guard(waiters_mutex_);
    if (!waiters_.empty()) {
      waiters_.front()->poke();
      return;
    }
  }
  arm_takeover();
}

std::chrono::microseconds engine::spin() const {
  return net_->idle() ? options_.spin : options_.spin_sending;
}

// False: the role is lost.
bool engine::sleep_in_network(engine_unit& unit, clock::time_point deadline) {
  if (!net_->arm()) return true;
  role_.enter(unit.key_, leader_role::asleep);
  const bool network_thread = may_run_inline(unit);
  const bool work = have_local_.load(std::memory_order_seq_cst) || stopping_.load() ||
                    (network_thread && !queue_.empty()) ||
                    (unit.awaited_ && unit.awaited_->ready());
  if (!work) {
    pollfd ready{net_->event_fd(), POLLIN, 0};
    ::poll(&ready, 1, milliseconds_until(deadline));
  }
  if (role_.resume(unit.key_, leader_role::asleep)) return true;
  unit.key_ = 0;
  return false;
}

void engine::begin_handler(engine_unit& unit) {
  unit.collecting_ = false;
  handler_number_.fetch_add(1, std::memory_order_relaxed);
  running_.fetch_add(1, std::memory_order_relaxed);
  role_.enter(unit.key_, leader_role::handler);
  arm_takeover();  // after `enter`, or the minder could miss this handler
  client_.prepare_thread();
}

void engine::end_handler(engine_unit& unit) {
  running_.fetch_sub(1, std::memory_order_release);
  if (unit.key_ != 0 && !role_.resume(unit.key_, leader_role::handler)) unit.key_ = 0;
}

engine::network_work::network_work(engine& of) noexcept : engine_(of) {
  if (self.owner != &of || self.unit->key_ == 0) return;
  if (of.role_.resume(self.unit->key_, leader_role::handler)) key_ = self.unit->key_;
}

engine::network_work::~network_work() {
  if (key_ == 0) return;
  engine_.handler_number_.fetch_add(1, std::memory_order_relaxed);  // its time begins anew
  engine_.role_.enter(key_, leader_role::handler);
  engine_.arm_takeover();
}

void engine::run(caf::resumable* job, engine_unit& unit) {
  if (job->subtype() == caf::resumable::scheduled_actor)
    detail::set_current_actor(static_cast<caf::scheduled_actor*>(job)->id());
  switch (job->resume(&unit, 64)) {
    case caf::resumable::resume_later: push(job); break;
    case caf::resumable::done:
    case caf::resumable::awaiting_message: intrusive_ptr_release(job); break;
    case caf::resumable::shutdown_execution_unit: break;
  }
}

// ---- Waiting
// ----------------------------------------------------------------------------------------

bool engine::wait(completion& what, clock::time_point deadline) {
  if (what.ready()) return true;
  // A handler of another node does not drive this one: when its own ends, it shall hear of that.
  if (!self.owner || self.owner == this) {
    gate::pass pass(waits_);
    if (pass) drive_until(what, deadline);
  }
  return what.ready() || wait_without_network(what, deadline);
}

bool engine::wait_without_network(completion& what, clock::time_point deadline) {
  if (self.owner) return self.owner->hold_handler(what, deadline);
  while (!what.ready() && (deadline == never || clock::now() < deadline))
    what.park_unless_poked(what.pokes(), deadline);
  return what.ready();
}

// On a thread of this engine.
bool engine::hold_handler(completion& what, clock::time_point deadline) {
  gate::pass pass(waits_);
  {
    std::lock_guard guard(waiters_mutex_);
    held_.push_back(&what);
  }
  bool late = false;
  for (;;) {
    auto pokes = what.pokes();
    late = deadline != never && clock::now() >= deadline;
    if (what.ready() || late || waits_.closed()) break;
    what.park_unless_poked(pokes, deadline);
  }
  {
    std::lock_guard guard(waiters_mutex_);
    held_.erase(std::find(held_.begin(), held_.end(), &what));
  }
  if (what.ready() || late) return what.ready();
  throw not_initialized("the node has been shut down");
}

// Returns when `what` is ready, the deadline has passed or the waits have ended.
void engine::drive_until(completion& what, clock::time_point deadline) {
  engine_unit unit(*this);
  if (auto* system = system_.load()) unit.attach(*system);
  unit.awaited_ = &what;
  const auto own_key = is_own_thread() ? self.unit->key_ : 0;
  bool patient = false;  // let a network thread lead: it can run the handlers that keep arriving
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
      lead_while_waiting(what, deadline, unit);
      patient = unit.handed_on_ >= 2;
    } else if (!what.ready()) {
      park_waiter(what, deadline);
      parked = true;
      if (leader_role::state_of(role_.look()) == leader_role::free) patient = false;
    }
  }
  // Poked to lead, but no longer waiting: it falls to somebody else.
  if (parked && leader_role::state_of(role_.look()) == leader_role::free) find_leader();
}

// Drives the network until `what` is ready, the deadline passes, the waits end, the role is lost,
// or it turns out that this node serves others meanwhile.
void engine::lead_while_waiting(completion& what, clock::time_point deadline, engine_unit& unit) {
  clock::time_point quiet_since;
  unsigned empty_polls = 0;
  // What this thread's own handler has left to itself goes to others now.
  if (!queue_.empty()) summon_runner();
  for (;;) {
    auto events = poll(unit);
    if (what.ready() || waits_.closed()) break;
    if (unit.handed_on_ >= 2) {
      handed_over_.store(true);
      role_.release(std::exchange(unit.key_, 0));
      if (!wake_parked()) poke_minder();
      return;
    }
    if (events > 0) {
      empty_polls = 0;
      continue;
    }
    pause();
    if (++empty_polls % polls_per_look != 0) continue;
    auto now = clock::now();
    if (empty_polls == polls_per_look) quiet_since = now;
    if (now >= deadline) break;
    if (now - quiet_since > spin()) {
      if (!sleep_in_network(unit, deadline)) return;
      empty_polls = 0;
    } else if (now - quiet_since > options_.yield_after) {
      sched_yield();
    }
  }
  hand_back(unit);
}

// A network thread that leads and has nothing to do gives way to a waiter, who saves a wake-up that
// way.
bool engine::ask_for_role(completion& what, leader_role::snapshot& key) {
  wanted_.fetch_add(1);
  const auto give_up = clock::now() + options_.yield_after;
  while (!what.ready() && key == 0) {
    auto seen = role_.look();
    if (leader_role::idle(seen))
      key = role_.take(seen, leader_role::waiter);
    else if (clock::now() > give_up)
      break;
  }
  wanted_.fetch_sub(1);
  return key != 0;
}

void engine::park_waiter(completion& what, clock::time_point deadline) {
  auto pokes = what.pokes();
  {
    std::lock_guard guard(waiters_mutex_);
    waiters_.push_back(&what);
    waiter_count_.fetch_add(1, std::memory_order_seq_cst);
  }
  // Whoever frees the role from now on pokes; was it free before?
  auto state = leader_role::state_of(role_.look());
  if (state != leader_role::free || handed_over_.load()) what.park_unless_poked(pokes, deadline);
  std::lock_guard guard(waiters_mutex_);
  waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &what));
  waiter_count_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace troupe
