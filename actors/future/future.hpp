#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "troupe/actors/future/future_core.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/last_owner.hpp"
#include "troupe/messages/tensor/device_streams.hpp"

namespace troupe {

template <class T>
class promise;

/// The value of a call that may still be under way. Copies share it. Thread-safe.
template <class T>
class future {
public:
  using value_type = T;

  future() = default;
  explicit future(std::shared_ptr<detail::future_state<T>> state) : state_(std::move(state)) {}

  /// Does it belong to a call at all?
  bool valid() const noexcept { return state_ != nullptr; }

  /// Is there a value or an error?
  bool ready() const { return state().ready(); }

  /// Blocks until there is a value or an error; false if the limit passed first.
  bool wait_for(std::chrono::nanoseconds limit) const { return wait_until(deadline_after(limit)); }
  void wait() const { wait_until(clock::time_point::max()); }

  /// The value, or throws the error. Blocks like `wait`. May be called on every copy, any number of
  /// times: the value stays here, so take a large one by reference.
  const detail::stored<T>& get() const& requires(!std::is_void_v<T>) {
    wait();
    return *checked().value();
  }

  /// The same for a future that is not needed any more: the value is moved out if no copy is left.
  T get() && {
    wait();
    checked();
    if constexpr (!std::is_void_v<T>) {
      // A value that cannot be copied is taken from all copies.
      if constexpr (std::is_copy_constructible_v<T>)
        if (!is_last_owner(state_)) return *state_->value();
      return std::move(*state_->value());
    }
  }

  void get() const& requires(std::is_void_v<T>) {
    wait();
    checked();
  }

  /// Like `get`, but throws rpc_timeout when there is nothing after `limit`.
  T get_for(std::chrono::nanoseconds limit) const;

  /// Gives it up, unless it is ready: this future and its copies fail with cancelled_error at once.
  /// The callee of a call is notified, and drops the call, or has its coroutine throw
  /// cancelled_error. The coroutine of a task is notified in the same way, and the future becomes
  /// ready when the coroutine ends. Everything else goes on: what `then` continues, the parts of
  /// `when_all`, an actor that was asked.
  void cancel() const { state().cancel(); }

  /// Calls `f` on a thread of the node once this is ready. Its result becomes the returned future's
  /// value, what it throws the future's error. `f` takes the value (nothing, if void): then an
  /// error skips it and goes on to the result. Or it takes this future, as a `future<T>`, and is
  /// called in either case: `get` returns the value or throws the error without waiting. An `f`
  /// that can take both gets the value. `f` works in the autograd context of the caller of `then`.
  template <class F>
  auto then(F f) const;

  detail::future_state<T>& state() const {
    if (!state_) throw invalid_argument("this future belongs to no call");
    return *state_;
  }
  const std::shared_ptr<detail::future_state<T>>& shared() const noexcept { return state_; }

private:
  bool wait_until(clock::time_point deadline) const {
    return state().ready() || state_->wait_until(deadline, state_);
  }
  detail::future_state<T>& checked() const {
    if (state_->failure()) std::rethrow_exception(state_->failure());
    if constexpr (std::is_void_v<T>) state_->value();  // for what it has done on devices
    return *state_;
  }

  std::shared_ptr<detail::future_state<T>> state_;
};

/// The other end of a future that the program completes itself. If it is dropped without a value,
/// the future fails. Can be moved, not copied. One that has been moved from may be destroyed and
/// assigned to; everything else throws invalid_argument. Assigning to a promise drops the one that
/// it was before. Its functions may be called on any thread, one at a time.
template <class T>
class promise {
public:
  promise() : state_(std::make_shared<detail::future_state<T>>(nullptr)) {}
  explicit promise(std::shared_ptr<engine> driver)
      : state_(std::make_shared<detail::future_state<T>>(std::move(driver))) {}
  promise(promise&&) noexcept = default;
  promise& operator=(promise&& other) noexcept {
    promise(std::move(other)).state_.swap(state_);
    return *this;
  }
  ~promise() {
    if (state_ && !state_->ready())
      state_->set_exception(std::make_exception_ptr(
          remote_error("the promise of this future was dropped without a value")));
  }

  /// Does it have a future? Not if it has been moved from.
  bool valid() const noexcept { return state_ != nullptr; }

  /// Any number of times: the results are copies of one future.
  future<T> get_future() const { return future<T>(checked()); }

  /// Has the future been given up? Then a value or an error is dropped.
  bool cancelled() const { return checked()->cancelled(); }

  /// Throws invalid_argument if there is a value or an error already.
  template <class... Us>
  void set_value(Us&&... xs) {
    if (!checked()->set_value(std::forward<Us>(xs)...)) twice();
  }
  void set_exception(std::exception_ptr why) {
    if (!checked()->set_exception(std::move(why))) twice();
  }

private:
  const std::shared_ptr<detail::future_state<T>>& checked() const {
    if (!state_)
      throw invalid_argument(
          "this promise has been moved from: use the one that it was moved to, or assign a new "
          "one");
    return state_;
  }
  void twice() const {
    if (!cancelled()) throw invalid_argument("a future can only be marked completed once");
  }

  std::shared_ptr<detail::future_state<T>> state_;
};

namespace detail {

/// Runs `f` and puts its result or error into `out`, unless that has been cancelled.
template <class U, class F, class... Args>
void complete_with(future_state<U>& out, F& f, Args&&... args) noexcept {
  if (out.cancelled()) return;
  try {
    if constexpr (std::is_void_v<U>) {
      f(std::forward<Args>(args)...);
      out.set_value();
    } else {
      out.set_value(f(std::forward<Args>(args)...));
    }
  } catch (...) {
    out.set_exception(std::current_exception());
  }
}

// Does a continuation take the value, rather than its future?
template <class F, class T>
inline constexpr bool takes_value = std::is_invocable_v<F&, const T&>;
template <class F>
inline constexpr bool takes_value<F, void> = std::is_invocable_v<F&>;

// What a continuation makes of a T.
template <class F, class T, bool OfValue = takes_value<F, T>>
struct continued : std::invoke_result<F&, const T&> {};
template <class F>
struct continued<F, void, true> : std::invoke_result<F&> {};
template <class F, class T>
struct continued<F, T, false> : std::invoke_result<F&, const future<T>&> {
  static_assert(std::is_invocable_v<F&, const future<T>&>,
                "a continuation takes the future's value (nothing, of a future<void>), or the "
                "future itself");
};

}  // namespace detail

template <class T>
T future<T>::get_for(std::chrono::nanoseconds limit) const {
  if (!wait_for(limit)) {
    fault f;
    f.text = "no value within the limit of the wait";
    f.limit = std::chrono::duration_cast<std::chrono::milliseconds>(limit);
    throw rpc_timeout(std::move(f));
  }
  if constexpr (std::is_void_v<T>)
    get();
  else
    return get();
}

template <class T>
template <class F>
auto future<T>::then(F f) const {
  using result = typename detail::continued<F, T>::type;
  auto out = std::make_shared<detail::future_state<result>>(state().driver());
  state_->when_ready(detail::make_continuation([from = state_, out, f = std::move(f)]() mutable {
    if constexpr (!detail::takes_value<F, T>) {
      const future<T> done(from);
      detail::complete_with(*out, f, done);
    } else if (from->failure())
      out->set_exception(from->failure());
    else if constexpr (std::is_void_v<T>)
      detail::complete_with(*out, f);
    else {
      const auto of_value = [&] { return f(std::as_const(*from->value())); };
      detail::complete_with(*out, of_value);
    }
  }));
  return future<result>(out);
}

/// A future of all the values, in order; the first error wins at once, without waiting for the
/// others.
template <class T>
auto when_all(const std::vector<future<T>>& futures) {
  using result = std::conditional_t<std::is_void_v<T>, void, std::vector<detail::stored<T>>>;
  auto driver = futures.empty() ? nullptr : futures.front().state().driver();
  auto out = std::make_shared<detail::future_state<result>>(driver);
  struct gathering {
    std::vector<future<T>> from;
    std::atomic<std::size_t> missing;
  };
  auto all = std::make_shared<gathering>();
  all->from = futures;
  all->missing = futures.size() + 1;
  auto gather = [all] {
    if constexpr (!std::is_void_v<T>) {
      std::vector<T> values;
      values.reserve(all->from.size());
      for (const auto& f : all->from) values.push_back(*f.state().value());
      return values;
    }
  };
  auto arrived = [all, out, gather] {
    if (--all->missing > 0) return;
    const detail::stream_scope devices;  // it is there when all of them are
    detail::complete_with(*out, gather);
  };
  for (const auto& f : futures)
    f.state().when_ready(detail::make_continuation([state = f.shared(), out, arrived] {
      if (state->failure())
        out->set_exception(state->failure());
      else
        arrived();
    }));
  arrived();
  return future<result>(out);
}

}  // namespace troupe
