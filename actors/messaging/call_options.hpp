#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "troupe/messages/base/error.hpp"

namespace troupe {

/// The limit of one call or request, as its last argument: `node.rpc_sync<&f>("ps", x,
/// timeout(5s))`. 0: none.
struct timeout {
  template <class Rep, class Period>
  explicit timeout(std::chrono::duration<Rep, Period> limit)
      : limit(std::chrono::ceil<std::chrono::milliseconds>(limit)) {
    if (limit.count() < 0) throw invalid_argument("RPC Timeout must be non-negative");
  }
  std::chrono::milliseconds limit;
};

/// After the arguments of a call, request or message: when the receiver's window is full, it ends
/// with overloaded_error instead of waiting for room.
struct no_wait_t {};
inline constexpr no_wait_t no_wait;

/// After the arguments of a call, request or message: whether it passes others where they queue at
/// the receiver. A call that has to wait for a thread runs before all of normal priority that wait;
/// a message for an actor passes most of those in its mailbox (after three at most). What runs goes
/// on, and nothing is faster on its way.
enum class priority : std::uint8_t { normal, high };

/// How one call is to be made.
struct call_options {
  std::chrono::milliseconds limit{-1};  ///< 0: none; negative: the node's own
  bool wait = true;                     ///< for room in the receiver's window
  bool urgent = false;
  bool exceeds_window =
      false;  ///< a call goes also where the window is full; later ones wait for that
  bool uses_reply_route =
      false;           ///< a call's tensors go by the callee's device map, as those of answers do
  bool again = false;  ///< it is one of the attempts of a call with a `retry`
  bool sync = false;   ///< the caller waits for the answer at once: `rpc_sync`
};

struct retry;

namespace detail {

/// After the arguments of a call: it is an `rpc_sync`.
struct sync_t {};
inline constexpr sync_t sync;

template <class T>
inline constexpr bool is_option = false;
template <>
inline constexpr bool is_option<sync_t> = true;
template <>
inline constexpr bool is_option<timeout> = true;
template <>
inline constexpr bool is_option<no_wait_t> = true;
template <>
inline constexpr bool is_option<priority> = true;
template <>
inline constexpr bool is_option<call_options> = true;

template <class T>
inline constexpr bool is_call_option = is_option<std::decay_t<T>>;

/// How many of these, the last ones, say how the call is to be made.
template <class... Ts>
inline constexpr std::size_t option_count = (std::size_t{0} + ... + (is_call_option<Ts> ? 1 : 0));

template <class... Ts>
call_options options_in(const Ts&... arguments) {
  call_options how;
  [[maybe_unused]] const auto take = [&](const auto& one) {
    using type = std::decay_t<decltype(one)>;
    if constexpr (std::is_same_v<type, call_options>) how = one;
    if constexpr (std::is_same_v<type, timeout>) how.limit = one.limit;
    if constexpr (std::is_same_v<type, no_wait_t>) how.wait = false;
    if constexpr (std::is_same_v<type, priority>) how.urgent = one == priority::high;
    if constexpr (std::is_same_v<type, retry>) how.again = true;
    if constexpr (std::is_same_v<type, sync_t>) how.sync = true;
  };
  (take(arguments), ...);
  return how;
}

template <class... Args>
inline constexpr bool asks_for_retry = (std::is_same_v<std::decay_t<Args>, retry> || ...);

}  // namespace detail

}  // namespace troupe
