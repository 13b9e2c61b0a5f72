#include "actors/future.hpp"

#include <functional>

#include "actors/current.hpp"
#include "actors/engine.hpp"
#include "actors/job.hpp"

namespace troupe::detail {

future_core::link future_core::closed{nullptr, nullptr};

future_core::~future_core() {
  auto* next = next_.load();
  if (next == &closed) return;
  while (next) {  // never completed, so nobody ran them
    const std::unique_ptr<link> mine(next);
    intrusive_ptr_release(mine->job);
    next = mine->next;
  }
}

bool future_core::wait_until(clock::time_point deadline) {
  if (ready()) return true;
  if (answerer_ != 0 && answerer_ == current_actor())
    throw deadlock_error("an actor waits for its own answer, which it can only give afterwards");
  if (engine_) return engine_->wait(done_, deadline);
  return engine::wait_without_network(done_, deadline);
}

// Hot path: no lock.
void future_core::publish() {
  if (engine_)
    engine_->finish(done_);
  else
    done_.complete();
  auto* last = next_.exchange(&closed, std::memory_order_acq_rel);
  link* first = nullptr;
  while (last) {  // in the order in which they came
    auto* before = std::exchange(last->next, first);
    first = std::exchange(last, before);
  }
  while (first) {
    const std::unique_ptr<link> mine(first);
    first = mine->next;
    run_on(engine_.get(), mine->job);
  }
}

void future_core::when_ready(caf::resumable* next) {
  auto mine = std::make_unique<link>(link{next, next_.load(std::memory_order_acquire)});
  while (mine->next != &closed) {
    if (next_.compare_exchange_weak(mine->next, mine.get(), std::memory_order_acq_rel)) {
      (void)mine.release();
      return;
    }
  }
  run_on(engine_.get(), next);
}

void future_core::run_on(engine* driver, caf::resumable* job) {
  if (driver && driver->push_if_open(job)) return;
  job->resume(nullptr, 1);
  intrusive_ptr_release(job);
}

caf::resumable* make_continuation(std::function<void()> body) {
  return make_job([body = std::move(body)](caf::execution_unit*) { body(); });
}

}  // namespace troupe::detail
