#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "troupe/actors/future/future.hpp"

namespace troupe {

template <class T>
class task;

namespace detail {

/// The calls that a thread has made in a `wait_all`. The thread enters calls until `end` or the
/// destructor.
class calls_to_await {
public:
  calls_to_await() noexcept : before_(std::exchange(here_, this)) {}
  ~calls_to_await() { leave(); }
  calls_to_await(const calls_to_await&) = delete;
  calls_to_await& operator=(const calls_to_await&) = delete;

  /// Waits for all calls, and returns the first error among them, in the order in which they were
  /// made; null: none. The thread enters no further calls.
  std::exception_ptr end() noexcept;

  /// The innermost of the calling thread; nullptr: none. Hot path.
  static calls_to_await* here() noexcept { return here_; }
  /// Keeps the call until `end` has waited for it, or it has been answered with a value.
  void add(std::shared_ptr<future_core> call);

  /// While it lives, calls of the calling thread belong to no `wait_all`.
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
  std::size_t most_ = 64;  // calls, before answered ones are looked for and dropped
};

/// Enters `call` into the thread's `wait_all`, if there is one, and returns it. `at_once`: the
/// caller waits for it itself at once, and gets its error; then it is not entered.
template <class T>
future<T> awaited_later(future<T> call, bool at_once) {
  if (!at_once)
    if (auto* all = calls_to_await::here()) all->add(call.shared());
  return call;
}

template <class T>
inline constexpr bool is_task = false;
template <class T>
inline constexpr bool is_task<task<T>> = true;

}  // namespace detail

/// Calls `body` and returns its result once all calls that it has made on this thread are answered:
/// those by `rpc_async` (of nodes, rrefs and operators) and by `request`. Then throws what `body`
/// threw, else the first error among those calls, in the order in which they were made, even if the
/// body has seen it. Blocks like `future::wait`, as long as the calls' own limits permit; in every
/// case all calls are over afterwards. Calls that other threads, continuations and handlers make
/// are not waited for. May be nested: each waits for the calls made in it, and in no inner one.
/// `body` must not be a coroutine. Any thread; in a handler too. Throws not_initialized if the
/// handler's node ends meanwhile, and deadlock_error.
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
