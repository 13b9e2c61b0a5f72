#include "troupe/actors/groups/work/work_queue.hpp"

#include <sys/prctl.h>

#include <stdexcept>
#include <utility>

#include "troupe/actors/scheduler/lent_thread.hpp"

namespace troupe::groups {

namespace {

constexpr std::chrono::microseconds look_every(100);
constexpr int most_idle_looks = 20;

}  // namespace

void work_queue::block(completion& until) {
  const lent_thread lent;
  if (driver_->simulated())
    driver_->wait(until, never);
  else
    engine::wait_without_network(until, never);
}

// Somebody waits for the turn, or will see that nobody has it.
void work_queue::pass_turn() noexcept {
  const std::lock_guard lock(mutex_);
  if (turns_.empty()) return;
  driver_->finish(*turns_.front());
  turns_.pop_front();
}

bool work_queue::try_turn() noexcept {
  auto seen = state_.load();
  while ((seen & busy) == 0)
    if (state_.compare_exchange_weak(seen, seen | busy)) return true;
  return false;
}

// Waits until none runs. Pre: the caller is counted among those that wait.
void work_queue::take_turn() {
  for (;;) {
    if (try_turn()) return;
    auto turn = std::make_shared<completion>();
    {
      const std::lock_guard lock(mutex_);
      // Whoever leaves from here on finds it.
      turns_.push_back(turn);
      if ((state_.load() & busy) == 0) {
        std::erase(turns_, turn);
        continue;
      }
    }
    try {
      block(*turn);
    } catch (...) {
      std::unique_lock lock(mutex_);
      const bool passed = std::erase(turns_, turn) == 0;
      lock.unlock();
      if (passed) pass_turn();  // by the one that has left, to this thread
      throw;
    }
  }
}

void work_queue::enter() {
  state_.fetch_add(waiting_step);
  try {
    take_turn();
  } catch (...) {
    state_.fetch_sub(waiting_step);
    throw;
  }
  state_.fetch_sub(waiting_step);
}

bool work_queue::enter_to_end() noexcept {
  for (;;) {
    try {
      enter();
      return true;
    } catch (...) {
      // The node has ended, and lets none of its threads wait. Whoever has the turn ends soon, but
      // for a simulation's, whose strands all end.
      if (driver_->simulated()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void work_queue::enter_in_order() {
  run_up_to(last());
  std::shared_ptr<completion> handed;
  bool rings = false;
  {
    const std::lock_guard lock(mutex_);
    // What has left the queue has the turn already.
    if (!items_.empty()) {
      handed = std::make_shared<completion>();
      items_.push_back({0, {}, handed});
      state_.fetch_add(waiting_step);
      rings = needs_bell(true);
    }
  }
  if (!handed) return enter();
  if (rings) ring();
  try {
    block(*handed);
  } catch (...) {
    // The node ends. Nobody else gives this turn back.
    std::unique_lock lock(mutex_);
    const auto waits = std::erase_if(items_, [&](const auto& one) { return one.taker == handed; });
    lock.unlock();
    if (waits > 0)
      state_.fetch_sub(waiting_step);
    else
      leave();
    throw;
  }
}

std::uint64_t work_queue::push(const std::function<item(std::uint64_t)>& make) {
  std::uint64_t sequence = 0;
  bool rings = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) throw std::runtime_error("the queue of a group is closed");
    if (!runs_) begin_thread();
    // The number and the place in the queue belong together: this is under the lock, and
    // `try_enter` finds that something waits.
    sequence = state_.fetch_add(sequence_step + waiting_step) / sequence_step + 1;
    try {
      items_.push_back({sequence, make(sequence), nullptr});
    } catch (...) {
      // While something waits nobody takes a number without the lock, so this one is the last.
      state_.fetch_sub(sequence_step + waiting_step);
      throw;
    }
    ++pushed_;
    rings = needs_bell(!by_waiters_);
  }
  if (rings) ring();
  return sequence;
}

void work_queue::run_up_to(std::uint64_t sequence) {
  if (driver_->simulated()) return;
  for (;;) {
    entry next;
    bool rings = false;
    {
      const std::lock_guard lock(mutex_);
      if (items_.empty() || items_.front().sequence > sequence) return;
      // The queue's thread hands the turn to a thread that waits for it in order.
      if (!items_.front().taker && try_turn()) {
        next = std::move(items_.front());
        items_.pop_front();
        by_waiters_ = true;
      } else {
        rings = needs_bell(true);
      }
    }
    if (rings) ring();
    if (!next.run) return;
    run(std::move(next));
  }
}

void work_queue::hurry() {
  bool rings = false;
  {
    const std::lock_guard lock(mutex_);
    rings = !items_.empty() && needs_bell(true);
  }
  if (rings) ring();
}

// Under the lock, when there is something for the queue's thread, `at_once` or at its leisure. Must
// it be woken?
bool work_queue::needs_bell(bool at_once) noexcept {
  if (at_once) at_once_ = true;
  return rest_ == rest::sleeps || (at_once && rest_ == rest::looks);
}

void work_queue::ring() noexcept {
  bell_.fetch_add(1, std::memory_order_release);
  futex_wake(bell_);
}

// Under the lock.
void work_queue::begin_thread() {
  auto self = shared_from_this();
  if (driver_->simulated()) {
    ended_ = std::make_shared<completion>();
    driver_->run_aside([self, ended = ended_] {
      self->run_all();
      self->driver_->finish(*ended);
    });
  } else {
    if (thread_.joinable()) thread_.join();
    thread_ = std::thread([self] { self->work(); });
  }
  runs_ = true;
}

void work_queue::work() {
  // Its looks are not to be a multiple of their time apart.
  prctl(PR_SET_TIMERSLACK, 1'000);
  while (await_items()) run_all();
}

// On the queue's thread. False: it ends.
bool work_queue::await_items() {
  std::uint64_t seen = ~std::uint64_t{0}, pushed = 0;
  for (int idle = 0;;) {
    std::uint32_t bell = 0;
    bool sleeps = false;
    {
      const std::lock_guard lock(mutex_);
      rest_ = rest::none;
      if (items_.empty()) {
        if (closed_) return false;
        at_once_ = false;
        idle = pushed_ == std::exchange(pushed, pushed_) ? idle + 1 : 0;
        sleeps = idle > most_idle_looks;
      } else {
        const auto first = items_.front().sequence;
        if (at_once_ || closed_ || first == std::exchange(seen, first)) return true;
        idle = 0;
      }
      rest_ = sleeps ? rest::sleeps : rest::looks;
      // Who rings has put something down before, under the lock.
      bell = bell_.load(std::memory_order_acquire);
    }
    futex_wait(bell_, bell, sleeps ? never : clock::now() + look_every);
  }
}

// On the queue's thread, or a strand of a simulation.
void work_queue::run_all() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      worker_ = std::this_thread::get_id();
      if (items_.empty()) {
        // A simulation's strand ends here, and the next item begins another one.
        if (driver_->simulated()) runs_ = false;
        return;
      }
    }
    enter();
    entry next;
    {
      const std::lock_guard lock(mutex_);
      if (!items_.empty()) {
        next = std::move(items_.front());
        items_.pop_front();
        if (next.run) by_waiters_ = false;
      }
    }
    if (next.taker) {
      // The turn is that thread's now.
      state_.fetch_sub(waiting_step);
      driver_->finish(*next.taker);
    } else if (next.run) {
      run(std::move(next));
    } else {
      leave();  // others have run all
    }
  }
}

// Pre: the calling thread has the turn, which this gives back.
void work_queue::run(entry next) {
  next.run(next.sequence);
  // No longer among those that wait, and it runs no more.
  if ((state_.fetch_sub(waiting_step + busy) & waiting_mask) > waiting_step) pass_turn();
  // What it holds goes last: perhaps the group, which waits for its turn to end.
}

bool work_queue::is_worker() {
  const std::lock_guard lock(mutex_);
  return runs_ && worker_ == std::this_thread::get_id();
}

void work_queue::close() noexcept {
  std::shared_ptr<completion> ended;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    if (!driver_->simulated()) ring();
    if (runs_ && worker_ == std::this_thread::get_id()) return;
    if (runs_) ended = ended_;
  }
  if (thread_.joinable()) thread_.join();
  try {
    if (ended) block(*ended);
  } catch (const std::exception&) {
    // The simulation is over.
  }
}

}  // namespace troupe::groups
