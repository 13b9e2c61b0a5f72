// The timer thread, which sleeps until timers are due: those of calls, and the takeover timer,
// which finds handlers that run for long.

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "troupe/actors/scheduler/thread_engine.hpp"

namespace troupe {

namespace {

constexpr int most_factor = 16;  // times `takeover`

void check(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
}

void watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

// False: there was nothing.
bool drain(int fd) {
  std::uint64_t count = 0;
  return read(fd, &count, sizeof count) == sizeof count;
}

timespec to_timespec(std::chrono::nanoseconds time) {
  return {time.count() / 1'000'000'000, time.count() % 1'000'000'000};
}

}  // namespace

void thread_engine::open_timers() {
  check(epoll_ = epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  check(takeover_timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
        "timerfd_create");
  check(deadline_timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
        "timerfd_create");
  check(wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd");
  for (int fd : {takeover_timer_, deadline_timer_, wake_}) watch(epoll_, fd);
}

void thread_engine::close_timers() noexcept {
  for (int fd : {epoll_, takeover_timer_, deadline_timer_, wake_})
    if (fd >= 0) close(fd);
}

void thread_engine::wake_timer_thread() {
  std::uint64_t one = 1;
  [[maybe_unused]] auto wrote = write(wake_, &one, sizeof one);
}

void thread_engine::arm_takeover() {
  arm_takeover(takeover_factor_.load(std::memory_order_relaxed));
}

void thread_engine::arm_takeover(int factor) {
  // A thread that begins a handler has written the role before. `on_takeover_timer` clears this and
  // then looks at the role: one of the two sees the other, so that no handler goes unwatched.
  if (takeover_armed_.load(std::memory_order_seq_cst) || takeover_armed_.exchange(true)) return;
  armed_for_handler_.store(handler_number_.load(std::memory_order_relaxed),
                           std::memory_order_relaxed);
  set_takeover(clock::now(), options_.takeover * factor);
}

void thread_engine::set_takeover(clock::time_point now, clock::duration span) {
  takeover_due_.store((now + span).time_since_epoch().count(), std::memory_order_relaxed);
  itimerspec when{};
  when.it_value = to_timespec(span);
  timerfd_settime(takeover_timer_, 0, &when, nullptr);
}

// Called by the leader, which needs no watching until its next handler, when other threads want the
// processor: they would pay for the timer thread's wake-up. A handler that begins now, and a role
// that comes free, are looked at no later than if the timer were armed for them.
void thread_engine::put_off_takeover(clock::time_point now) {
  if (!placement_.crowded() || !takeover_armed_.load(std::memory_order_relaxed)) return;
  const auto due = clock::duration(takeover_due_.load(std::memory_order_relaxed));
  const auto span = options_.takeover * takeover_factor_.load(std::memory_order_relaxed);
  if (due - now.time_since_epoch() > span / 4) return;
  second_look_ = false;
  look_less_often();
  set_takeover(now, options_.takeover * takeover_factor_.load(std::memory_order_relaxed));
}

void thread_engine::set_timer(clock::time_point when) {
  auto ticks = when.time_since_epoch().count();
  // What is due was put down before, under a lock that `run_timers` takes after the old time is
  // forgotten: either it finds that, or this load finds another time. The membership's `due_` has
  // no lock, so all four accesses are sequentially consistent.
  if (ticks >= next_timer_.load(std::memory_order_seq_cst)) return;
  if (forked::from_nodes()) return;  // the timer is the parent's
  std::lock_guard guard(timer_mutex_);
  if (ticks >= next_timer_.load(std::memory_order_relaxed)) return;
  next_timer_.store(ticks, std::memory_order_release);
  itimerspec at{};
  at.it_value = to_timespec(std::max(when.time_since_epoch(), clock::duration(1)));
  timerfd_settime(deadline_timer_, TFD_TIMER_ABSTIME, &at, nullptr);
}

// Returns a key if this thread shall lead now, else 0.
leader_role::snapshot thread_engine::on_takeover_timer(engine_unit& unit) {
  if (!drain(takeover_timer_)) return 0;  // it has been put off meanwhile
  takeover_armed_.store(false, std::memory_order_seq_cst);
  auto seen = role_.look();
  bool free = leader_role::state_of(seen) == leader_role::free;
  const bool in_handler = leader_role::state_of(seen) == leader_role::handler;
  const bool same = handler_number_.load(std::memory_order_relaxed) ==
                    armed_for_handler_.load(std::memory_order_relaxed);
  if (free && seen != glanced_at_) {
    // Meanwhile a thread that waits now and then may lead, and need not win the role back each
    // time.
    if (look_at_network(unit, seen) == 0) {
      glanced_at_ = role_.look();
      look_less_often();
      return 0;
    }
    seen = role_.look();
    free = leader_role::state_of(seen) == leader_role::free;
  }
  if (free || (in_handler && same)) {
    takeover_factor_.store(least_factor_.load(std::memory_order_relaxed),
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
    // Handlers hold all other threads: one of those that wait shall lead; if all compute, this
    // thread looks at the network now and then.
    takeover_factor_.store(most_factor, std::memory_order_relaxed);
    look_at_network(unit, seen);
    return 0;
  }
  // Short handlers or quick calls, one after the other: look less often. But the present handler
  // may be a long one, so look at it once more soon.
  second_look_ = in_handler && !second_look_;
  if (second_look_) {
    arm_takeover(least_factor_.load(std::memory_order_relaxed));
  } else {
    look_less_often();
    if (in_handler) arm_takeover();
  }
  return 0;
}

void thread_engine::look_less_often() noexcept {
  takeover_factor_.store(std::min(2 * takeover_factor_.load(), most_factor),
                         std::memory_order_relaxed);
}

// A handler has ended that had lost the network. If that was a takeover, was it worth it? A hop to
// another thread costs more than a short wait.
void thread_engine::rate_takeover() noexcept {
  const auto taken = taken_over_.exchange(0, std::memory_order_relaxed);
  if (taken == 0) return;
  const auto since = clock::now().time_since_epoch() - clock::duration(taken);
  const bool in_vain = since < options_.takeover * most_factor;
  const auto least = least_factor_.load(std::memory_order_relaxed);
  least_factor_.store(in_vain ? std::min(2 * least, most_factor) : 1, std::memory_order_relaxed);
}

void thread_engine::on_deadline_timer() {
  drain(deadline_timer_);
  {
    std::lock_guard guard(timer_mutex_);
    // Before `run_timers` looks, see `set_timer`.
    next_timer_.store(never.time_since_epoch().count(), std::memory_order_seq_cst);
  }
  auto next = client_.run_timers(clock::now());
  if (next != never) set_timer(next);
}

// Waits for timers on behalf of all threads. Ends when this thread shall lead (returns a key) or
// has work (0).
leader_role::snapshot thread_engine::be_timer_thread(engine_unit& unit) {
  if (parked_count_ == 0) spawn();
  while (!stopping_) {
    if (short_of_threads_ && have_items()) spawn();  // the system may have one again
    if (work_waits()) return 0;
    if (occupied_.load() >= most_handlers()) {
      // No thread can take the role over: one of those that wait goes on leading.
      if (handed_over_.exchange(false)) find_leader();
      run_system_actor(unit);
    }
    epoll_event events[3];
    int count = epoll_wait(epoll_, events, 3, -1);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd == wake_) drain(wake_);
      if (events[i].data.fd == deadline_timer_) on_deadline_timer();
    }
    for (int i = 0; i < count; ++i)
      if (events[i].data.fd == takeover_timer_)
        if (auto key = on_takeover_timer(unit)) return key;
  }
  return 0;
}

// Progresses the network once, and leaves what arrives to other threads.
unsigned thread_engine::look_at_network(engine_unit& unit, leader_role::snapshot seen) {
  unit.key_ = role_.take(seen, leader_role::waiter);
  if (unit.key_ == 0) return 0;
  const auto events = poll(unit);
  if (unit.key_ != 0) hand_back(unit);
  return events;
}

// While handlers hold all other threads.
void thread_engine::run_system_actor(engine_unit& unit) {
  while (auto* item = first_.try_pop()) {
    running_.fetch_add(1);
    client_.prepare_thread();
    run(item, unit);
    running_.fetch_sub(1);
  }
}

// Called by a thread that is about to be busy, perhaps for ever. `occupy` has left one thread that
// is not: either it is parked, and is woken here, or it will see that no thread watches the timers.
void thread_engine::ensure_timer_thread() {
  if (!timers_watched_.load(std::memory_order_seq_cst)) wake_parked();
}

}  // namespace troupe
