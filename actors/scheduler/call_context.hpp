#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "troupe/actors/sync/futex.hpp"

namespace troupe {

class peer;

namespace detail {

class opened_context;

}  // namespace detail

/// A call that a node serves: who made it, and the caller's number for it.
struct active_call {
  const peer* from = nullptr;
  std::uint64_t request = 0;
  std::string_view function{};         ///< static text
  clock::time_point deadline = never;  ///< when its caller gives it up

  explicit operator bool() const noexcept { return from != nullptr; }
  /// The caller and its number identify a call.
  bool operator==(const active_call& other) const noexcept {
    return from == other.from && request == other.request;
  }
};

/// What a thread works for: a call, a distributed autograd context, both, or neither. Goes along
/// with a coroutine, from call to call, and back with their answers.
struct call_context {
  active_call call{};
  std::uint64_t context = 0;  ///< 0: none
  bool apart = false;         ///< none on purpose, whichever are open on the node
  /// The context is one that the thread, or the coroutine, has opened itself; null: it is not.
  std::shared_ptr<detail::opened_context> opened{};
};

}  // namespace troupe
