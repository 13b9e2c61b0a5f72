// What the engine offers to the node: the run queue, wake-ups, and the loop of each of its threads.

#include "troupe/actors/scheduler/thread_engine.hpp"

#include <pthread.h>

#include <algorithm>
#include <caf/scheduled_actor.hpp>

#include "troupe/actors/scheduler/thread_engine_internal.hpp"

namespace troupe {

thread_engine::thread_engine(dispatcher& client, engine_options options)
    : client_(client), options_(options) {
  open_timers();
}

thread_engine::~thread_engine() { close_timers(); }

void thread_engine::start(transport::transport& net) {
  net_ = &net;
  handed_over_ = true;
  spawn();
  spawn();
  if (thread_count_ < 2)
    throw std::system_error(EAGAIN, std::generic_category(), "the threads of a node");
}

void thread_engine::attach(caf::actor_system& system) { system_.store(&system); }

bool thread_engine::is_own_thread() const noexcept { return self.owner == this; }

void thread_engine::on_message(transport::incoming_message&& message) {
  inbox_.push_back({std::move(message), nullptr});
}

void thread_engine::on_peer_lost(transport::rank_t peer, transport::peer_loss why) {
  inbox_.push_back({{peer, {}, {}}, std::make_unique<transport::peer_loss>(std::move(why))});
}

void thread_engine::deliver_locally(transport::incoming_message&& message) {
  {
    std::lock_guard guard(local_mutex_);
    local_.push_back(std::move(message));
    // Before `wake_network` looks at the role; `sleep_in_network` does both the other way round.
    have_local_.store(true, std::memory_order_seq_cst);
  }
  wake_network();
}

void thread_engine::wake_network() {
  // A thread that leads may have looked at the transport for the last time before it sleeps: then
  // it finds this afterwards, see `sleep_in_network`.
  wants_progress_.store(true, std::memory_order_seq_cst);
  auto seen = role_.look();
  if (leader_role::state_of(seen) == leader_role::asleep) net_->wake();
  if (leader_role::state_of(seen) == leader_role::free) arm_takeover();
}

bool thread_engine::is_system_actor(caf::resumable* item) const noexcept {
  return item->subtype() == caf::resumable::scheduled_actor &&
         static_cast<caf::scheduled_actor*>(item)->id() ==
             system_actor_.load(std::memory_order_relaxed);
}

// In a forked process nothing is pushed: it has no thread that could run it.
void thread_engine::push(caf::resumable* item) {
  if (forked::from_nodes()) return;
  (is_system_actor(item) ? first_ : queue_).push(item);
  summon_runner();
}

void thread_engine::push_urgent(caf::resumable* item) {
  if (forked::from_nodes()) return;
  queue_.push(item, true);
  summon_runner();
}

bool thread_engine::push_if_open(caf::resumable* item) {
  gate::pass pass(entrance_);
  if (!pass) return false;
  push(item);
  return true;
}

bool thread_engine::run_if_open(const std::function<void()>& body) {
  gate::pass pass(entrance_);
  if (!pass) return false;
  body();
  return true;
}

// Makes sure that a thread comes to the queue. A network thread that leads looks at it before each
// sleep; one in a handler does so afterwards, or loses the network to a thread that does.
void thread_engine::summon_runner() {
  auto seen = role_.look();
  if (leader_role::by_network_thread(seen)) {
    switch (leader_role::state_of(seen)) {
      case leader_role::leading:
      case leader_role::yielding: return;
      case leader_role::asleep: net_->wake(); return;
      case leader_role::handler:
        if (self.owner == this && self.unit->key_ != 0 &&
            seen == leader_role::in(self.unit->key_, leader_role::handler))
          return;  // this thread itself
        break;
      case leader_role::free: break;
    }
  }
  if (!wake_parked()) wake_timer_thread();
}

void thread_engine::finish(completion& what) {
  what.complete();
  // A waiter that leads and sleeps, sleeps in the network: the futex of `what` does not wake it.
  auto seen = role_.look();
  if (leader_role::by_network_thread(seen) || leader_role::state_of(seen) != leader_role::asleep)
    return;
  // After the stop there is neither such a waiter nor a network.
  if (gate::pass pass(entrance_); pass) net_->wake();
}

void thread_engine::thread_main() {
  pthread_setname_np(pthread_self(), "troupe");
  { const std::lock_guard counted(threads_mutex_); }  // see `spawn`
  engine_unit unit(*this);
  self = {this, &unit, this, false};
  while (!stopping_) {
    if (auto* system = system_.load()) unit.attach(*system);
    bool occupied = occupy();
    if (occupied && handed_over_.exchange(false)) {
      // Not from a waiter that has taken it meanwhile and sleeps: see `idle`.
      if (auto seen = role_.look(); leader_role::idle(seen))
        unit.key_ = role_.take(seen, leader_role::network_thread);
    } else if (auto* item = occupied ? take_item() : nullptr) {
      ensure_timer_thread();
      client_.prepare_thread();
      self.may_block = true;
      run(item, unit);
      self.may_block = false;
      running_.fetch_sub(1, std::memory_order_release);  // see `quiet`
    } else {
      if (std::exchange(occupied, false)) occupied_.fetch_sub(1);
      if (!timers_watched_.exchange(true)) {
        unit.key_ = be_timer_thread(unit);
        occupied = unit.key_ != 0;
        // Before `ensure_timer_thread` looks for a parked thread; `park` counts itself and then
        // looks at this: one of the two sees the other. The next timer thread gets `glanced_at_`
        // with it.
        timers_watched_.store(false, std::memory_order_seq_cst);
      } else if (!park()) {
        self = {};
        return;  // retired: it is not counted any more, and others do what there is to do
      }
    }
    if (unit.key_ != 0) {
      ensure_timer_thread();
      lead(unit);
    }
    if (occupied) occupied_.fetch_sub(1);
  }
  run_what_is_left(unit);
  self = {};
  thread_count_.fetch_sub(1);
}

// False: this thread is the last one that is free, and stays so as the timer thread. One of the
// threads that exist is always kept for that, since the system may have no further one to give.
bool thread_engine::occupy() noexcept {
  const auto others = occupied_.fetch_add(1);
  const auto one_is_left = [&] { return others + 1 < thread_count_.load(); };
  if (others < options_.max_threads) {
    if (!one_is_left()) spawn();
    if (one_is_left()) return true;
  }
  occupied_.fetch_sub(1);
  return false;
}

unsigned thread_engine::most_handlers() const noexcept {
  if (!short_of_threads_.load()) return options_.max_threads;
  return std::min(options_.max_threads, thread_count_.load() - 1);
}

// Is there work for a thread, and may it take it?
bool thread_engine::work_waits() const noexcept {
  if (occupied_.load() >= most_handlers()) return false;
  return handed_over_ || (have_items() && !leader_polls_queue());
}

// At the stop. A thread that pushes an item from now on runs it here itself.
void thread_engine::run_what_is_left(engine_unit& unit) {
  while (auto* item = take_item()) {
    if (item->subtype() == caf::resumable::function_object) {
      client_.prepare_thread();
      self.may_block = true;
      run(item, unit);
      self.may_block = false;
    } else {
      dropped_.push(item);
    }
    running_.fetch_sub(1, std::memory_order_release);  // see `quiet`
  }
}

engine::thread_counts thread_engine::count() const {
  return {thread_count_.load() + lent_.load(),
          static_cast<unsigned>(std::max(parked_count_.load(), 0)), !have_items()};
}

// An item counts as running before it leaves the queue, so that `quiet` sees it in one place or the
// other.
caf::resumable* thread_engine::take_item() {
  if (!have_items()) return nullptr;
  running_.fetch_add(1, std::memory_order_seq_cst);
  auto* item = first_.try_pop();
  if (!item) item = queue_.try_pop();
  if (!item) running_.fetch_sub(1, std::memory_order_relaxed);
  return item;
}

void thread_engine::take_queued(const std::function<bool(caf::resumable&)>& is,
                                const std::function<void(caf::resumable&)>& use) {
  // As in `take_item`.
  running_.fetch_add(1, std::memory_order_seq_cst);
  for (auto* item : queue_.take(is)) {
    use(*item);
    intrusive_ptr_release(item);
  }
  running_.fetch_sub(1, std::memory_order_release);  // see `quiet`
}

// Looks at the number twice: an item may be taken out of the queue in between. Each decrement that
// ends a run releases to these looks: what has ended has queued, sent and counted all that it had
// to.
bool thread_engine::quiet() const noexcept {
  const int own = is_own_thread() ? 1 : 0;
  return running_.load() == own && !have_items() && !have_local_.load() && running_.load() == own;
}

}  // namespace troupe
