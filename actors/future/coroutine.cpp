#include "troupe/actors/future/coroutine.hpp"

#include "troupe/actors/scheduler/engine.hpp"
#include "troupe/actors/scheduler/node_context.hpp"
#include "troupe/actors/scheduler/work_item.hpp"
#include "troupe/messages/tensor/device_streams.hpp"

namespace troupe::detail {

/// A coroutine that waits. Whoever takes it resumes it or destroys it; if nobody does, the
/// destructor destroys it.
class suspended {
public:
  suspended(std::coroutine_handle<> who, const call_context& what, std::exception_ptr& thrown)
      : who_(who.address()), works_for_(what), devices_(current_work()), thrown_(thrown) {}
  suspended(const suspended&) = delete;
  suspended& operator=(const suspended&) = delete;
  ~suspended() {
    if (auto who = take()) who.destroy();
  }

  /// Empty: it has been taken already.
  std::coroutine_handle<> take() noexcept {
    return std::coroutine_handle<>::from_address(who_.exchange(nullptr));
  }

  /// Not null for as long as it waits.
  const std::atomic<void*>& who() const noexcept { return who_; }

  void resume() {
    auto who = take();
    if (!who) return;
    const call_context_scope as(works_for_);
    const handler_streams on(devices_.get());
    who.resume();
  }

  /// The same coroutine, which throws when it is resumed; nullptr if it has been taken already.
  std::shared_ptr<suspended> interrupt(std::exception_ptr why) {
    auto who = take();
    if (!who) return nullptr;
    thrown_ = std::move(why);
    auto out = std::make_shared<suspended>(who, works_for_, thrown_);
    out->devices_ = devices_;
    return out;
  }

private:
  std::atomic<void*> who_;
  const call_context works_for_;
  std::shared_ptr<const device_work> devices_;  // null: none
  std::exception_ptr& thrown_;                  // the coroutine's
};

std::shared_ptr<engine> current_driver() {
  auto* node = current_node_context();
  return node ? node->driver() : nullptr;
}

bool suspend(std::shared_ptr<future_core> what, std::coroutine_handle<> who,
             coroutine_control* control, std::exception_ptr& thrown) {
  const auto waiting =
      std::make_shared<suspended>(who, control ? current_call_context() : call_context(), thrown);
  const auto driver = control ? control->driver() : nullptr;
  const auto threads_own = control ? control->began_for() : current_call_context();
  if (control) {
    if (auto why = control->begin_wait(waiting, what)) {
      thrown = std::move(why);
      waiting->take();
      return false;
    }
  }
  // From here on another thread may cancel the coroutine and destroy it, `control` included.
  auto* next = make_continuation([waiting, driver] {
    if (!waiting->who()) return;
    if (!driver || driver->is_own_thread()) return waiting->resume();
    auto* item = make_continuation([waiting] { waiting->resume(); });
    // Not resumed here: what the coroutine refers to in its node is gone.
    if (!driver->push_if_open(item)) intrusive_ptr_release(item);
  });
  // The thread works again for what it worked for when the coroutine began.
  set_current_call_context(threads_own);
  what->when_ready(next, &waiting->who());
  return true;
}

// Returns what the coroutine throws instead of waiting; null: nothing.
std::exception_ptr coroutine_control::begin_wait(const std::shared_ptr<suspended>& who,
                                                 const std::shared_ptr<future_core>& what) {
  const std::lock_guard guard(mutex_);
  if (told_ && !told_->thrown.exchange(true)) return told_->why;
  waiting_ = who;
  awaited_ = what;
  return nullptr;
}

void coroutine_control::cancel() {
  {
    const std::lock_guard guard(mutex_);
    if (told_) return;
  }
  fault why;
  why.text = "the task was cancelled";
  const auto what = std::make_shared<cancellation>();
  what->why = std::make_exception_ptr(cancelled_error(std::move(why)));
  for (auto next = receive(what); next;) next = next->coroutine()->receive(what);
}

// Passes the cancellation on: returns the task that this one waits for, which receives it next.
std::shared_ptr<future_core> coroutine_control::receive(const std::shared_ptr<cancellation>& what) {
  std::shared_ptr<suspended> interrupted;
  std::shared_ptr<future_core> awaited;
  std::shared_ptr<suspended> waiting;  // may be the last: dropped after the lock
  {
    const std::lock_guard guard(mutex_);
    if (told_ == what) return nullptr;  // tasks that wait for one another
    told_ = what;
    waiting = waiting_.lock();
    if (!waiting || !waiting->who()) return nullptr;  // it runs: begin_wait finds out
    awaited = awaited_.lock();
    if (awaited && awaited->coroutine() && !awaited->ready()) return awaited;
    interrupted = waiting->interrupt(what->why);
    if (!interrupted) return nullptr;
    what->thrown = true;
  }
  if (awaited) awaited->abandoned();
  auto* item = make_continuation([interrupted] { interrupted->resume(); });
  if (!driver_)
    future_core::run_on(awaited ? awaited->driver().get() : nullptr, item);
  else if (!driver_->push_if_open(item))
    intrusive_ptr_release(item);
  return nullptr;
}

}  // namespace troupe::detail
