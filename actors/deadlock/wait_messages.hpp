#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "troupe/actors/future/question.hpp"

// What the nodes of a job send one another about handlers that wait (see deadlock_search).
namespace troupe::deadlock {

/// At most so many questions, or numbers of waits, in one message: the receiver handles a message
/// in one go, on the leading thread. More go into further messages; none are left out, or a large
/// deadlock would never be found.
inline constexpr std::size_t most_in_message = 1'024;

using detail::question;

/// A handler that waits until its question is answered.
struct held_handler {
  std::uint64_t number = 0;  ///< of this wait, on its node; never used again
  question waits_for;
  std::string name;  ///< for error texts: the function, or the message and the actor

  friend constexpr auto troupe_fields(const held_handler*) {
    return std::make_tuple(&held_handler::number, &held_handler::waits_for, &held_handler::name);
  }
};

/// What the answer to a question depends on.
enum class prospect : std::uint8_t {
  open,          ///< nothing that the node knows of: it may be answered at any time
  handler,       ///< the end of the wait of that number
  thread,        ///< a thread that could run the call; handlers that wait hold all of them
  thread_actor,  ///< the same for the actor
};

struct outlook {
  prospect what = prospect::open;
  std::uint64_t handler = 0;

  friend constexpr auto troupe_fields(const outlook*) {
    return std::make_tuple(&outlook::what, &outlook::handler);
  }
};

/// What a node reports of several questions, at one moment: an outlook for each, and the handlers
/// that these name; all of the node's handlers that wait, if one of the questions waits for a
/// thread.
struct report {
  std::vector<outlook> outlooks;
  std::vector<held_handler> handlers;
  std::uint32_t max_threads = 0;  ///< set if one of them waits for a thread

  friend constexpr auto troupe_fields(const report*) {
    return std::make_tuple(&report::outlooks, &report::handlers, &report::max_threads);
  }
};

}  // namespace troupe::deadlock
