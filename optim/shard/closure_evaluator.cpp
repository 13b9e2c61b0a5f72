#include "troupe/optim/shard/closure_evaluator.hpp"

namespace troupe::detail {

future<evaluated_loss> closure_desk::evaluate() {
  promise<evaluated_loss> wanted(driver_);
  auto out = wanted.get_future();
  const std::lock_guard lock(mutex_);
  if (ended_) throw invalid_argument("the caller's step has ended");
  wanted_.emplace(std::move(wanted));
  signal();
  return out;
}

bool closure_desk::wait() {
  future<void> changed;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || wanted_) return !ended_;
    changed_.emplace(driver_);
    changed = changed_->get_future();
  }
  changed.get();
  const std::lock_guard lock(mutex_);
  return !ended_;
}

void closure_desk::answer(const evaluated_loss& loss) {
  std::optional<promise<evaluated_loss>> wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted = std::exchange(wanted_, std::nullopt);
  }
  if (wanted) wanted->set_value(loss);
}

void closure_desk::fail(std::exception_ptr why) {
  std::optional<promise<evaluated_loss>> wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted = std::exchange(wanted_, std::nullopt);
  }
  if (wanted) wanted->set_exception(std::move(why));
}

void closure_desk::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  signal();
}

void closure_desk::signal() {
  if (auto changed = std::exchange(changed_, std::nullopt)) changed->set_value();
}

}  // namespace troupe::detail
