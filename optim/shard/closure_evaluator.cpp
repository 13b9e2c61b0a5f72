#include "troupe/optim/shard/closure_evaluator.hpp"

namespace troupe::detail {

future<evaluated_loss> closure_evaluator::evaluate() {
  promise<evaluated_loss> request(driver_);
  auto out = request.get_future();
  const std::lock_guard lock(mutex_);
  if (closed_) throw invalid_argument("the caller's step has ended");
  request_.emplace(std::move(request));
  notify();
  return out;
}

bool closure_evaluator::wait_for_request() {
  future<void> changed;
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || request_) return !closed_;
    changed_.emplace(driver_);
    changed = changed_->get_future();
  }
  changed.get();
  const std::lock_guard lock(mutex_);
  return !closed_;
}

// Promises are kept without the lock: what waits for them may run at once.
void closure_evaluator::reply(const evaluated_loss& loss) {
  if (auto request = take_request()) request->set_value(loss);
}

void closure_evaluator::fail(std::exception_ptr why) {
  if (auto request = take_request()) request->set_exception(std::move(why));
}

std::optional<promise<evaluated_loss>> closure_evaluator::take_request() {
  const std::lock_guard lock(mutex_);
  return std::exchange(request_, std::nullopt);
}

void closure_evaluator::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  notify();
}

void closure_evaluator::notify() {
  if (auto changed = std::exchange(changed_, std::nullopt)) changed->set_value();
}

}  // namespace troupe::detail
