#include "troupe/actors/groups/work_queue.hpp"

#include <stdexcept>
#include <utility>

namespace troupe::groups {

void work_queue::block(completion& until) {
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

// Waits until none runs. Pre: the caller is counted among those that wait.
void work_queue::take_turn() {
  for (;;) {
    auto seen = state_.load();
    while ((seen & busy) == 0)
      if (state_.compare_exchange_weak(seen, seen | busy)) return;
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
    block(*turn);
  }
}

void work_queue::enter() {
  state_.fetch_add(waiting_step);
  take_turn();
  state_.fetch_sub(waiting_step);
}

void work_queue::enter_in_order() {
  std::shared_ptr<completion> handed;
  {
    const std::lock_guard lock(mutex_);
    // What has left the queue has the turn already.
    if (!items_.empty()) {
      handed = std::make_shared<completion>();
      items_.push_back({0, {}, handed});
      state_.fetch_add(waiting_step);
    }
  }
  if (!handed) return enter();
  try {
    block(*handed);
  } catch (...) {
    // Only in a simulation that ends. Nobody else gives this turn back.
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
  const std::lock_guard lock(mutex_);
  if (closed_) throw std::runtime_error("the queue of a group is closed");
  if (!runs_) begin_thread();
  // The number and the place in the queue belong together: this is under the lock, and `try_enter`
  // finds that something waits.
  const auto sequence = state_.fetch_add(sequence_step + waiting_step) / sequence_step + 1;
  try {
    items_.push_back({sequence, make(sequence), nullptr});
  } catch (...) {
    // While something waits nobody takes a number without the lock, so this one is the last.
    state_.fetch_sub(sequence_step + waiting_step);
    throw;
  }
  if (idle_) driver_->finish(*std::exchange(idle_, nullptr));
  return sequence;
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
  for (;;) {
    run_all();
    std::shared_ptr<completion> idle;
    {
      const std::lock_guard lock(mutex_);
      if (!items_.empty()) continue;
      if (closed_) return;
      idle = idle_ = std::make_shared<completion>();
    }
    block(*idle);
  }
}

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
    take_turn();
    entry next;
    {
      const std::lock_guard lock(mutex_);
      next = std::move(items_.front());
      items_.pop_front();
    }
    if (next.taker) {
      // The turn is that thread's now.
      state_.fetch_sub(waiting_step);
      driver_->finish(*next.taker);
      continue;
    }
    next.run(next.sequence);
    next.run = nullptr;
    // No longer among those that wait, and it runs no more.
    if ((state_.fetch_sub(waiting_step + busy) & waiting_mask) > waiting_step) pass_turn();
  }
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
    if (idle_) driver_->finish(*std::exchange(idle_, nullptr));
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
