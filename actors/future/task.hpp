#pragma once

#include "troupe/actors/future/answer_of.hpp"
#include "troupe/actors/future/coroutine.hpp"

namespace troupe {

template <class T>
class task;

namespace detail {

/// The awaiter of a future.
template <class T>
class future_awaiter {
public:
  explicit future_awaiter(future<T> what) : what_(std::move(what)) {}

  bool await_ready() const { return what_.ready(); }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> who) {
    coroutine_control* control = nullptr;
    if constexpr (requires { who.promise().control(); }) control = &who.promise().control();
    return suspend(what_.shared(), who, control, thrown_);
  }
  T await_resume() {
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
    return std::move(what_).get();
  }

private:
  future<T> what_;
  std::exception_ptr thrown_;  // instead of the value
};

/// The future of what a coroutine returns.
template <class T>
class task_state final : public future_state<T> {
public:
  task_state() : task_state(current_driver()) {}

  coroutine_control* coroutine() noexcept override { return &control_; }
  void cancel() override { control_.cancel(); }

private:
  explicit task_state(const std::shared_ptr<engine>& driver)
      : future_state<T>(driver), control_(driver) {}

  coroutine_control control_;
};

/// The outcome of a coroutine, and the future that gets it.
template <class T>
struct task_outcome {
  std::shared_ptr<task_state<T>> state;
  std::optional<stored<T>> value;
  std::exception_ptr failure;

  void settle() {
    if (failure)
      state->set_exception(std::move(failure));
    else if (!value)
      state->set_exception(std::make_exception_ptr(
          remote_error("the coroutine was dropped while it waited for something")));
    else if constexpr (std::is_void_v<T>)
      state->set_value();
    else
      state->set_value(std::move(*value));
  }
};

// Completes the future after the coroutine's frame is destroyed, its parameters included.
struct task_end {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> who) const noexcept {
    auto outcome = std::move(who.promise().outcome_);
    who.destroy();
    outcome.settle();
  }
  void await_resume() const noexcept {}
};

// A type with the functions of an awaiter, and a type that `operator co_await` turns into an
// awaiter.
template <class T>
concept awaiter = requires(T& x) {
  x.await_ready();
  x.await_resume();
};
template <class T>
concept gives_awaiter = requires(T&& x) {
  operator co_await(static_cast<T&&>(x));
}
|| requires(T&& x) { static_cast<T&&>(x).operator co_await(); };
template <class T>
concept awaitable = awaiter<std::remove_reference_t<T>> || gives_awaiter<T>;

// Refers to an awaiter: g++ 12 copies one that await_transform returns by reference.
template <class Awaiter>
struct awaiter_elsewhere {
  Awaiter& one;

  decltype(auto) await_ready() const { return one.await_ready(); }
  template <class Promise>
  decltype(auto) await_suspend(std::coroutine_handle<Promise> who) const {
    return one.await_suspend(who);
  }
  decltype(auto) await_resume() const { return one.await_resume(); }
};

template <class T>
class task_promise_base {
public:
  task_promise_base() = default;
  task_promise_base(const task_promise_base&) = delete;
  task_promise_base& operator=(const task_promise_base&) = delete;
  ~task_promise_base() {
    if (outcome_.state) outcome_.settle();  // dropped
  }

  task<T> get_return_object() const { return task<T>(future<T>(outcome_.state)); }
  std::suspend_never initial_suspend() const noexcept { return {}; }
  task_end final_suspend() const noexcept { return {}; }
  coroutine_control& control() const noexcept { return *outcome_.state->coroutine(); }
  void unhandled_exception() noexcept { outcome_.failure = std::current_exception(); }

  /// Passes every awaitable on unchanged.
  template <class U>
  decltype(auto) await_transform(U&& what) const noexcept {
    static_assert(
        awaitable<U>,
        "co_await takes a future, a task or another awaitable: of an rref to_here_async(), "
        "of an actor request(handle, message)");
    if constexpr (gives_awaiter<U>)
      return static_cast<U&&>(what);
    else if constexpr (awaitable<U>)
      return awaiter_elsewhere<std::remove_reference_t<U>>{what};
    else
      return std::suspend_never();
  }

protected:
  friend struct task_end;

  task_outcome<T> outcome_{std::make_shared<task_state<T>>(), {}, {}};
};

template <class T>
struct task_promise : task_promise_base<T> {
  template <class U = T>
  requires std::is_convertible_v<U&&, T>
  void return_value(U&& x) { this->outcome_.value.emplace(std::forward<U>(x)); }
  template <class U>
  requires(!std::is_convertible_v<U&&, T>) void return_value(U&&) {
    static_assert(std::is_convertible_v<U&&, T>,
                  "what the coroutine returns does not convert to the value of its task");
  }
};
template <>
struct task_promise<void> : task_promise_base<void> {
  void return_void() { this->outcome_.value.emplace(); }
};

}  // namespace detail

/// The return type of a coroutine that waits for futures without holding a thread: it may
/// `co_await` futures and other tasks. It runs at once, on the caller's thread, up to the first
/// future that is not ready, and goes on on a thread of the node in whose handler it began; if it
/// began in none, of the future's node. Thread-local settings (grad mode, say) do not come along.
/// Parameters behave as in any C++ coroutine: what a reference parameter refers to must outlive the
/// coroutine, and does so in a function that another node has called. A coroutine whose node has
/// ended is destroyed where it waits. Dropping the task changes nothing. If the task is cancelled,
/// or the call that it answers, the co_await at which the innermost coroutine waits throws
/// cancelled_error. Thread-safe.
template <class T = void>
class task {
public:
  using promise_type = detail::task_promise<T>;
  using value_type = T;

  explicit task(future<T> outcome) : outcome_(std::move(outcome)) {}

  /// The future of what the coroutine returns or throws.
  const future<T>& result() const noexcept { return outcome_; }
  operator future<T>() const { return outcome_; }

  bool ready() const { return outcome_.ready(); }
  decltype(auto) get() const& { return outcome_.get(); }
  T get() && { return std::move(outcome_).get(); }
  T get_for(std::chrono::nanoseconds limit) const { return outcome_.get_for(limit); }

  /// See future::cancel.
  void cancel() const { outcome_.cancel(); }

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
