#pragma once

#include <coroutine>
#include <memory>
#include <mutex>

#include "troupe/actors/future/future_core.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"

namespace troupe::detail {

class suspended;

/// A cancellation of a task and of those that it waits for: one of their coroutines throws it,
/// once.
struct cancellation {
  std::exception_ptr why;
  std::atomic<bool> thrown{false};
};

/// The control block of a task's coroutine: the engine that it runs on, what it waits for, whether
/// it was cancelled. Thread-safe. Outlives the coroutine.
class coroutine_control {
public:
  explicit coroutine_control(std::shared_ptr<engine> driver)
      : driver_(std::move(driver)), began_for_(current_call_context()) {}

  /// The innermost coroutine of those that wait for one another throws cancelled_error from its
  /// co_await: at once if it waits, else the next time that it would. A second call does nothing.
  void cancel();

  /// The engine on whose threads it goes on; nullptr: that of the future that it waits for.
  const std::shared_ptr<engine>& driver() const noexcept { return driver_; }

  /// What the thread worked for when the coroutine began.
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

/// The engine of the node whose handler the calling thread runs; nullptr elsewhere.
std::shared_ptr<engine> current_driver();

/// Resumes `who` as soon as `what` is ready, on a thread of its engine, or else of that of `what`.
/// If that engine has stopped by then, the coroutine is destroyed instead. False: it goes on at
/// once. When it goes on it throws `thrown`, which lies in the coroutine, if that is set.
/// `control`: of a task; nullptr: of another kind of coroutine, which is never cancelled.
bool suspend(std::shared_ptr<future_core> what, std::coroutine_handle<> who,
             coroutine_control* control, std::exception_ptr& thrown);

}  // namespace troupe::detail
