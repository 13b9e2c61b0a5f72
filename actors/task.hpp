#pragma once

#include <coroutine>

#include "actors/function_table.hpp"
#include "actors/future.hpp"

namespace troupe {

template <class T>
class task;

namespace detail {

/// The engine of the node whose handler the caller runs; nullptr elsewhere.
std::shared_ptr<engine> current_driver();

/// Has `who` go on as soon as `what` is ready, on a thread of `driver`; nullptr: of the future's.
/// If that never comes, the coroutine ends where it stands.
void resume_when_ready(future_core& what, std::coroutine_handle<> who,
                       const std::shared_ptr<engine>& driver);

/// What co_await makes of a future.
template <class T>
class future_awaiter {
public:
  explicit future_awaiter(future<T> what) : what_(std::move(what)) {}

  bool await_ready() const { return what_.ready(); }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> who) const {
    if constexpr (requires { who.promise().driver(); })
      resume_when_ready(what_.state(), who, who.promise().driver());
    else
      resume_when_ready(what_.state(), who, nullptr);
  }
  T await_resume() { return std::move(what_).get(); }

private:
  future<T> what_;
};

// The outcome is told when all that the coroutine had is gone.
template <class T>
class task_outcome {
public:
  task_outcome() = default;
  task_outcome(const task_outcome&) = delete;
  task_outcome& operator=(const task_outcome&) = delete;
  ~task_outcome() {
    if (failure_)
      state_->set_exception(std::move(failure_));
    else if (value_)
      tell_value();
    else
      state_->set_exception(std::make_exception_ptr(
          remote_error("the coroutine was dropped while it waited for something")));
  }

  task<T> get_return_object() const { return task<T>(future<T>(state_)); }
  std::suspend_never initial_suspend() const noexcept { return {}; }
  std::suspend_never final_suspend() const noexcept { return {}; }
  const std::shared_ptr<engine>& driver() const noexcept { return state_->driver(); }
  void unhandled_exception() noexcept { failure_ = std::current_exception(); }

protected:
  std::optional<stored<T>> value_;

private:
  void tell_value() {
    if constexpr (std::is_void_v<T>)
      state_->set_value();
    else
      state_->set_value(std::move(*value_));
  }

  std::shared_ptr<future_state<T>> state_ = std::make_shared<future_state<T>>(current_driver());
  std::exception_ptr failure_;
};

template <class T>
struct task_promise : task_outcome<T> {
  template <class U>
  requires std::is_convertible_v<U&&, T>
  void return_value(U&& x) { this->value_.emplace(std::forward<U>(x)); }
};
template <>
struct task_promise<void> : task_outcome<void> {
  void return_void() { this->value_.emplace(); }
};

}  // namespace detail

/// What a coroutine returns that waits for futures without holding a thread: `co_await` one, or
/// another task. It runs at once, on the caller's thread, up to the first future that is not ready,
/// and goes on on a thread of the node in whose handler it began; of the future's, if in none. What
/// the thread has set (grad mode, say) does not come along. Its parameters are the coroutine's as
/// C++ has it: a reference must outlive it, but those of a function that another node has called
/// do. Dropping the task changes nothing. Thread-safe.
template <class T = void>
class task {
public:
  using promise_type = detail::task_promise<T>;
  using value_type = T;

  explicit task(future<T> outcome) : outcome_(std::move(outcome)) {}

  /// Of what the coroutine returns or throws.
  const future<T>& result() const noexcept { return outcome_; }
  operator future<T>() const { return outcome_; }

  bool ready() const { return outcome_.ready(); }
  decltype(auto) get() const { return outcome_.get(); }
  T get_for(std::chrono::nanoseconds limit) const { return outcome_.get_for(limit); }

private:
  future<T> outcome_;
};

template <class T>
detail::future_awaiter<T> operator co_await(future<T> what) {
  return detail::future_awaiter<T>(std::move(what));
}
template <class T>
detail::future_awaiter<T> operator co_await(const task<T>& what) {
  return detail::future_awaiter<T>(what.result());
}

namespace detail {

template <class T>
struct answer_of<task<T>> {
  using type = T;
  static constexpr bool later = true;
};

}  // namespace detail

}  // namespace troupe
