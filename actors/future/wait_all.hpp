#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "troupe/actors/future/future.hpp"
#include "troupe/actors/messaging/call_options.hpp"

namespace troupe {

template <class T>
class task;

namespace detail {

/// The calls that a thread has made in a `wait_all`. Until `end`, or its own, it is the thread's.
class calls_to_await {
public:
  calls_to_await() noexcept : before_(std::exchange(here_, this)) {}
  ~calls_to_await() { leave(); }
  calls_to_await(const calls_to_await&) = delete;
  calls_to_await& operator=(const calls_to_await&) = delete;

  /// The thread is as it was before. Waits for all calls, and returns the first error of them, in
  /// the order in which they were made; null: none.
  std::exception_ptr end() noexcept;

  /// The innermost of the calling thread; nullptr: none. Hot path.
  static calls_to_await* here() noexcept { return here_; }
  /// Keeps it until it has been waited for. One that has been answered with a value may go before.
  void add(std::shared_ptr<future_core> call);

  /// While it lives, what the calling thread does is nobody's in a `wait_all`.
  class pause {
  public:
    pause() noexcept : before_(std::exchange(here_, nullptr)) {}
    ~pause() { here_ = before_; }
    pause(const pause&) = delete;
    pause& operator=(const pause&) = delete;

  private:
    calls_to_await* const before_;
  };

private:
  void leave() noexcept {
    if (!std::exchange(left_, true)) here_ = before_;
  }

  static inline constinit thread_local calls_to_await* here_ = nullptr;

  calls_to_await* const before_;
  bool left_ = false;
  std::vector<std::shared_ptr<future_core>> calls_;
  std::size_t most_ = 64;  // before those that have been answered are looked for
};

/// The same future, which belongs to the thread's `wait_all` from now on, unless the caller waits
/// for it at once, and hears its error.
template <class T>
future<T> awaited_later(future<T> call, const call_options& how) {
  if (!how.sync)
    if (auto* all = calls_to_await::here()) all->add(call.shared());
  return call;
}

template <class T>
inline constexpr bool is_task = false;
template <class T>
inline constexpr bool is_task<task<T>> = true;

}  // namespace detail

/// Calls `body` and returns what it returns, once all that it has begun on this thread is answered:
/// calls by `rpc_async` (of nodes, rrefs and operators) and by `request`. Then throws what `body`
/// threw, else the first error among those calls, in the order in which they were made, also when
/// the body has seen it. Blocks like `future::wait`, for as long as the calls' own limits let it;
/// in every case all are waited for, and nothing of them is left afterwards. What other threads,
/// continuations and handlers begin is theirs. May be nested: each waits for what was begun
/// in it and in none further in. `body` is no coroutine. Any thread; in a handler too. Throws
/// not_initialized when the handler's node ends meanwhile, and deadlock_error.
template <class Body>
auto wait_all(Body&& body) -> std::invoke_result_t<Body> {
  using result = std::invoke_result_t<Body>;
  static_assert(!detail::is_task<std::remove_cvref_t<result>>,
                "what a coroutine calls after its first co_await is not seen by wait_all: use "
                "co_await when_all(futures) there");
  detail::calls_to_await calls;
  try {
    if constexpr (std::is_void_v<result>) {
      std::forward<Body>(body)();
      if (const auto why = calls.end()) std::rethrow_exception(why);
    } else {
      // A reference stays one.
      decltype(auto) out = std::forward<Body>(body)();
      if (const auto why = calls.end()) std::rethrow_exception(why);
      return static_cast<result&&>(out);
    }
  } catch (...) {
    calls.end();
    throw;
  }
}

}  // namespace troupe
