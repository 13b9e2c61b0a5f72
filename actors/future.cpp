#include "actors/future.hpp"

#include <functional>

#include "actors/current.hpp"
#include "actors/engine.hpp"
#include "actors/job.hpp"

namespace troupe::detail {

future_core::~future_core() {
  // Never completed, so nobody ran them.
  for (auto* next : next_) intrusive_ptr_release(next);
}

bool future_core::wait_until(clock::time_point deadline) {
  if (ready()) return true;
  if (answerer_ != 0 && answerer_ == current_actor())
    throw deadlock_error("an actor waits for its own answer, which it can only give afterwards");
  if (engine_) return engine_->wait(done_, deadline);
  while (!ready()) {
    if (clock::now() >= deadline) return ready();
    done_.park_unless_poked(done_.pokes(), deadline);
  }
  return true;
}

void future_core::publish() {
  std::vector<caf::resumable*> next;
  {
    std::lock_guard guard(mutex_);
    next.swap(next_);
    if (engine_)
      engine_->finish(done_);
    else
      done_.complete();
  }
  for (auto* job : next) run_on(engine_.get(), job);
}

void future_core::when_ready(caf::resumable* next) {
  {
    std::lock_guard guard(mutex_);
    if (!ready()) {
      next_.push_back(next);
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
