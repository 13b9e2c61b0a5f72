// The threads of an engine: who they are, how they sleep, and the one that minds the timers.

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <system_error>

#include "actors/threads/thread_engine.hpp"
#include "messages/log.hpp"

namespace troupe {

namespace {

constexpr auto retire_after = std::chrono::seconds(10);
constexpr int most_patience = 16;  // times `takeover`
constexpr std::chrono::microseconds longest_pause(5'000);
constexpr unsigned base_threads = 3;  // one leads, one minds the timers, one is spare

void check(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
}

void watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

void drain(int fd) {
  std::uint64_t count = 0;
  [[maybe_unused]] auto got = read(fd, &count, sizeof count);
}

timespec to_timespec(std::chrono::nanoseconds time) {
  return {time.count() / 1'000'000'000, time.count() % 1'000'000'000};
}

// Wakes again and again until it is done: somebody else than who shall hear of it may take a
// wake-up of the network.
template <class Done, class Wake>
void until(Done&& done, Wake&& wake) {
  for (std::chrono::microseconds pause(20); !done(); pause = std::min(2 * pause, longest_pause)) {
    wake();
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

struct thread_engine::parked_thread {
  std::atomic<std::uint32_t> awake{0};
};

void thread_engine::open_timers() {
  check(epoll_ = epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  check(takeover_timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
        "timerfd_create");
  check(deadline_timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
        "timerfd_create");
  check(poke_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd");
  for (int fd : {takeover_timer_, deadline_timer_, poke_}) watch(epoll_, fd);
}

void thread_engine::close_timers() noexcept {
  for (int fd : {epoll_, takeover_timer_, deadline_timer_, poke_})
    if (fd >= 0) close(fd);
}

// Without effect when the system has no thread to give: those that there are go on.
void thread_engine::spawn() {
  std::unique_lock guard(threads_mutex_);
  if (stopping_) return;  // `stop` joins them all
  for (auto id : retired_) {
    auto gone = std::find_if(threads_.begin(), threads_.end(),
                             [&](const std::thread& t) { return t.get_id() == id; });
    gone->join();
    threads_.erase(gone);
  }
  retired_.clear();
  if (threads_.size() > options_.max_threads) return;
  thread_count_.fetch_add(1);
  try {
    threads_.emplace_back([this] { thread_main(); });
  } catch (const std::system_error& e) {
    thread_count_.fetch_sub(1);
    if (std::exchange(short_of_threads_, true)) return;
    const auto count = threads_.size();
    guard.unlock();
    log().warn("a node goes on with {} threads: no more can be made: {}", count, e.what());
  }
}

void thread_engine::end_waits() {
  waits_.close();
  until([&] { return waits_.empty(); },
        [&] {
          std::lock_guard guard(waiters_mutex_);
          for (auto* waiter : waiters_) waiter->poke();
          for (auto* waiter : held_) waiter->poke();
          net_->wake();
        });
}

void thread_engine::stop(const std::function<void(caf::resumable*)>& drop) {
  end_waits();
  entrance_.close();
  entrance_.wait_until_empty();
  stopping_ = true;
  until([&] { return thread_count_ == 0; },
        [&] {
          std::lock_guard guard(threads_mutex_);
          for (auto* thread : parked_) {
            thread->awake.store(1);
            futex_wake(thread->awake);
          }
          parked_.clear();
          net_->wake();
          poke_minder();
        });
  for (auto& thread : threads_) thread.join();
  threads_.clear();
  while (auto* job = dropped_.try_pop()) drop(job);
  while (auto* job = first_.try_pop()) drop(job);
  while (auto* job = queue_.try_pop()) drop(job);  // of a node that never had a thread
  inbox_.clear();
  local_.clear();
}

bool thread_engine::wake_parked() {
  if (parked_count_.load(std::memory_order_seq_cst) == 0) return false;
  std::lock_guard guard(threads_mutex_);
  if (parked_.empty()) return false;
  auto* thread = parked_.back();
  parked_.pop_back();
  parked_count_.fetch_sub(1);
  thread->awake.store(1);
  futex_wake(thread->awake);
  return true;
}

// False: the thread has been spare for so long that it shall end.
bool thread_engine::park() {
  parked_thread me;
  {
    std::lock_guard guard(threads_mutex_);
    parked_.push_back(&me);
    parked_count_.fetch_add(1, std::memory_order_seq_cst);
  }
  // What came before this thread could be seen as parked?
  if (work_waits() || !minded_ || stopping_) {
    std::lock_guard guard(threads_mutex_);
    auto place = std::find(parked_.begin(), parked_.end(), &me);
    if (place != parked_.end()) {
      parked_.erase(place);
      parked_count_.fetch_sub(1);
    }
    return true;
  }
  while (me.awake.load() == 0) {
    auto until = clock::now() + retire_after;
    futex_wait(me.awake, 0, until);
    if (me.awake.load() != 0 || clock::now() < until) continue;
    std::lock_guard guard(threads_mutex_);
    auto place = std::find(parked_.begin(), parked_.end(), &me);
    if (place == parked_.end()) break;  // woken at the last moment
    if (thread_count_ <= base_threads) continue;
    parked_.erase(place);
    parked_count_.fetch_sub(1);
    retired_.push_back(std::this_thread::get_id());
    return false;
  }
  return true;
}

bool thread_engine::leader_polls_queue() const noexcept {
  return leader_role::serving(role_.look());
}

void thread_engine::poke_minder() {
  std::uint64_t one = 1;
  [[maybe_unused]] auto wrote = write(poke_, &one, sizeof one);
}

void thread_engine::arm_takeover() {
  arm_takeover(takeover_patience_.load(std::memory_order_relaxed));
}

void thread_engine::arm_takeover(int patience) {
  if (takeover_armed_.load(std::memory_order_seq_cst) || takeover_armed_.exchange(true)) return;
  armed_for_handler_.store(handler_number_.load(std::memory_order_relaxed),
                           std::memory_order_relaxed);
  set_takeover(clock::now(), options_.takeover * patience);
}

void thread_engine::set_takeover(clock::time_point now, clock::duration span) {
  takeover_due_.store((now + span).time_since_epoch().count(), std::memory_order_relaxed);
  itimerspec when{};
  when.it_value = to_timespec(span);
  timerfd_settime(takeover_timer_, 0, &when, nullptr);
}

// By the leader, whom nobody has to watch until its next handler, where others want the processor:
// they would pay for the minder's wake-up. Who finds the timer armed has seen a role that is not
// free any more, so it loses nothing.
void thread_engine::put_off_takeover(clock::time_point now) {
  if (!processor_.crowded() || !takeover_armed_.load(std::memory_order_relaxed)) return;
  const auto due = clock::duration(takeover_due_.load(std::memory_order_relaxed));
  const auto span = options_.takeover * takeover_patience_.load(std::memory_order_relaxed);
  if (due - now.time_since_epoch() > span / 4) return;
  look_less_often();
  set_takeover(now, options_.takeover * takeover_patience_.load(std::memory_order_relaxed));
}

void thread_engine::set_timer(clock::time_point when) {
  auto ticks = when.time_since_epoch().count();
  if (ticks >= next_timer_.load(std::memory_order_acquire)) return;
  std::lock_guard guard(timer_mutex_);
  if (ticks >= next_timer_.load(std::memory_order_relaxed)) return;
  next_timer_.store(ticks, std::memory_order_release);
  itimerspec at{};
  at.it_value = to_timespec(std::max(when.time_since_epoch(), clock::duration(1)));
  timerfd_settime(deadline_timer_, TFD_TIMER_ABSTIME, &at, nullptr);
}

// A key when this thread shall lead now.
leader_role::snapshot thread_engine::on_takeover_timer(engine_unit& unit) {
  drain(takeover_timer_);
  takeover_armed_.store(false, std::memory_order_seq_cst);
  auto seen = role_.look();
  bool free = leader_role::state_of(seen) == leader_role::free;
  const bool in_handler = leader_role::state_of(seen) == leader_role::handler;
  const bool same = handler_number_.load(std::memory_order_relaxed) ==
                    armed_for_handler_.load(std::memory_order_relaxed);
  if (free && seen != glanced_at_) {
    // Who waits now and then leads meanwhile, and need not win the role back each time.
    if (look_at_network(unit, seen) == 0) {
      glanced_at_ = role_.look();
      look_less_often();
      return 0;
    }
    seen = role_.look();
    free = leader_role::state_of(seen) == leader_role::free;
  }
  if (free || (in_handler && same)) {
    takeover_patience_.store(least_patience_.load(std::memory_order_relaxed),
                             std::memory_order_relaxed);
    second_look_ = false;
    if (occupy()) {
      const auto key = role_.take(seen, leader_role::network_thread);
      if (key == 0)
        occupied_.fetch_sub(1);
      else if (in_handler)
        taken_over_.store(clock::now().time_since_epoch().count(), std::memory_order_relaxed);
      return key;
    }
    // While handlers have all other threads: one of those that wait shall lead; if all compute,
    // this thread looks at the network now and then.
    takeover_patience_.store(most_patience, std::memory_order_relaxed);
    look_at_network(unit, seen);
    return 0;
  }
  // Short handlers or quick calls, one after the other: look less often. But the handler of this
  // moment may be a long one, which is seen soon.
  second_look_ = in_handler && !second_look_;
  if (second_look_) {
    arm_takeover(least_patience_.load(std::memory_order_relaxed));
  } else {
    look_less_often();
    if (in_handler) arm_takeover();
  }
  return 0;
}

void thread_engine::look_less_often() noexcept {
  takeover_patience_.store(std::min(2 * takeover_patience_.load(), most_patience),
                           std::memory_order_relaxed);
}

// A handler has ended that had lost the network, if to a takeover: was that worth it? A hop to
// another thread costs more than a short wait.
void thread_engine::rate_takeover() noexcept {
  const auto taken = taken_over_.exchange(0, std::memory_order_relaxed);
  if (taken == 0) return;
  const auto since = clock::now().time_since_epoch() - clock::duration(taken);
  const bool in_vain = since < options_.takeover * most_patience;
  const auto least = least_patience_.load(std::memory_order_relaxed);
  least_patience_.store(in_vain ? std::min(2 * least, most_patience) : 1,
                        std::memory_order_relaxed);
}

void thread_engine::on_deadline_timer() {
  drain(deadline_timer_);
  {
    std::lock_guard guard(timer_mutex_);
    next_timer_.store(never.time_since_epoch().count(), std::memory_order_release);
  }
  auto next = client_.run_timers(clock::now());
  if (next != never) set_timer(next);
}

// Waits for timers on behalf of all. Ends when this thread shall lead (a key) or has work (0).
leader_role::snapshot thread_engine::mind(engine_unit& unit) {
  if (parked_count_ == 0) spawn();
  while (!stopping_) {
    if (work_waits()) return 0;
    if (occupied_.load() >= options_.max_threads) {
      // Nobody can take it: one of those who wait goes on leading.
      if (handed_over_.exchange(false)) find_leader();
      run_aside_of_handlers(unit);
    }
    epoll_event events[3];
    int count = epoll_wait(epoll_, events, 3, -1);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd == poke_) drain(poke_);
      if (events[i].data.fd == deadline_timer_) on_deadline_timer();
    }
    for (int i = 0; i < count; ++i)
      if (events[i].data.fd == takeover_timer_)
        if (auto key = on_takeover_timer(unit)) return key;
  }
  return 0;
}

// Once, and hands on what it finds.
unsigned thread_engine::look_at_network(engine_unit& unit, leader_role::snapshot seen) {
  unit.key_ = role_.take(seen, leader_role::waiter);
  if (unit.key_ == 0) return 0;
  const auto events = poll(unit);
  if (unit.key_ != 0) hand_back(unit);
  return events;
}

// While handlers have all other threads.
void thread_engine::run_aside_of_handlers(engine_unit& unit) {
  while (auto* job = first_.try_pop()) {
    running_.fetch_add(1);
    client_.prepare_thread();
    run(job, unit);
    running_.fetch_sub(1);
  }
}

// Called by a thread that is about to be busy, perhaps for ever.
void thread_engine::ensure_minder() {
  if (!minded_.load(std::memory_order_seq_cst) && !wake_parked()) spawn();
}

}  // namespace troupe
