#pragma once

#include <coroutine>
#include <memory>
#include <mutex>

#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/actors/future/future.hpp"

namespace troupe::detail {

class suspended;

/// Told to a task and to those that it waits for; one of their coroutines throws it, once.
struct cancellation {
  std::exception_ptr why;
  std::atomic<bool> thrown{false};
};

/// What a task knows of its coroutine: where it belongs, what it waits for, whether it was
/// cancelled. Thread-safe. Outlives the coroutine.
class coroutine_control {
public:
  explicit coroutine_control(std::shared_ptr<engine> driver)
      : driver_(std::move(driver)), began_for_(current_call_context()) {}

  /// The innermost of the coroutines that wait for one another throws cancelled_error out of its
  /// co_await: at once when it waits, else the first time that it would. Once: a second time does
  /// nothing.
  void cancel();

  /// Whose threads it goes on on; nullptr: of the future that it waits for.
  const std::shared_ptr<engine>& driver() const noexcept { return driver_; }

  /// What the thread worked for on which it began.
  const call_context& began_for() const noexcept { return began_for_; }

private:
  friend bool suspend(std::shared_ptr<future_core> what, std::coroutine_handle<> who,
                      coroutine_control* control, std::exception_ptr& thrown);

  std::exception_ptr begin_wait(const std::shared_ptr<suspended>& who,
                                const std::shared_ptr<future_core>& what);
  std::shared_ptr<future_core> receive(const std::shared_ptr<cancellation>& what);

  const std::shared_ptr<engine> driver_;
  const call_context began_for_;
  std::mutex mutex_;
  std::shared_ptr<cancellation> told_;
  std::weak_ptr<suspended> waiting_;
  std::weak_ptr<future_core> awaited_;
};

/// The engine of the node whose handler the caller runs; nullptr elsewhere.
std::shared_ptr<engine> current_driver();

/// Has `who` go on as soon as `what` is ready, on a thread of its driver, or of that of `what`.
/// When that engine has stopped, the coroutine ends where it stands. False: it goes on at once. It
/// shall throw `thrown`, which is the coroutine's, if that is set then. `control`: of a task;
/// nullptr: another coroutine, which nobody cancels.
bool suspend(std::shared_ptr<future_core> what, std::coroutine_handle<> who,
             coroutine_control* control, std::exception_ptr& thrown);

}  // namespace troupe::detail
