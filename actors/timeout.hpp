#pragma once

#include <chrono>
#include <type_traits>

#include "messages/error.hpp"

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

namespace detail {

/// Is the last of these a limit?
template <class... Ts>
inline constexpr bool limited = (false || ... || std::is_same_v<std::decay_t<Ts>, timeout>);

/// The limit at the end of a pack of arguments; -1 ms: there is none.
inline std::chrono::milliseconds limit_in() { return std::chrono::milliseconds(-1); }
template <class First, class... Rest>
std::chrono::milliseconds limit_in(const First& first, const Rest&... rest) {
  if constexpr (sizeof...(Rest) > 0)
    return limit_in(rest...);
  else if constexpr (std::is_same_v<First, timeout>)
    return first.limit;
  else
    return std::chrono::milliseconds(-1);
}

}  // namespace detail

}  // namespace troupe
