#pragma once

#include <optional>

#include "troupe/actors/cluster/worker_info.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"

namespace troupe {

/// The call that the calling thread serves.
struct call_info {
  worker_info from;  ///< the node that asks; of an actor's message within a node, that node
  /// The function, as errors name it; in an operator, its name without the overload; of a message,
  /// its type.
  std::string function;
  std::uint64_t actor = 0;  ///< the id of the actor whose handler this is; 0: a function's call
  /// The caller's deadline, by this node's clock: its limit, counted from the arrival here. A tick
  /// of the system (at most 10 ms) early, and as late as the message was under way. Empty: there is
  /// no limit, or one of more than seven weeks.
  std::optional<clock::time_point> deadline{};
  bool cancelled = false;  ///< the caller has given up the call; never set for an actor's message

  /// Time left until the deadline, at least 0; empty without a limit.
  std::optional<std::chrono::nanoseconds> time_left() const;
};

/// The call, or the message to an actor, that the calling thread works for: in a function that a
/// node has called and in its coroutines, also after a co_await; in a handler of an actor, but not
/// after a co_await of a coroutine that began in it. Empty elsewhere: on threads of the program, in
/// continuations (`then`). Copies two texts; `call_cancelled` alone is cheaper.
std::optional<call_info> current_call();

/// Has the caller given up the call that the calling thread serves? For functions that other nodes
/// call, their coroutines, and the tasks that these begin. False elsewhere.
bool call_cancelled() noexcept;

}  // namespace troupe
