#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "troupe/actors/cluster/peer_table.hpp"

// What the nodes of a job tell one another about handlers that wait (see deadlock_search).
namespace troupe::deadlock {

/// Questions in a note, or numbers of waits: they are looked at at once, on the thread that leads.
/// What is more goes into further notes; nothing is left out, or a large deadlock would never end.
inline constexpr std::size_t most_in_message = 1'024;

/// A node in one of its lives. One that comes back is another: it numbers requests and waits anew.
struct incarnation {
  transport::rank_t rank = 0;
  std::uint64_t number = 0;

  friend auto operator<=>(const incarnation&, const incarnation&) = default;
  friend constexpr auto troupe_fields(const incarnation*) {
    return std::make_tuple(&incarnation::rank, &incarnation::number);
  }
};

inline incarnation incarnation_of(const peer& one) noexcept {
  return {one.rank(), one.incarnation};
}

/// Where an answer is to come from: `asker`, a node, has asked this at `at`.
struct question {
  incarnation asker;
  incarnation at;
  /// As the asker numbers it. Of an actor of the asker's own node: the address of the future.
  std::uint64_t request = 0;
  std::uint64_t actor = 0;  ///< who is asked; 0: a function

  friend auto operator<=>(const question&, const question&) = default;
  friend constexpr auto troupe_fields(const question*) {
    return std::make_tuple(&question::asker, &question::at, &question::request, &question::actor);
  }
};

/// A handler that waits, and will for as long as its question has no answer.
struct held_handler {
  std::uint64_t number = 0;  ///< of this wait, on its node; never used again
  question waits_for;
  std::string name;  ///< for people: the function, or the message and the actor

  friend constexpr auto troupe_fields(const held_handler*) {
    return std::make_tuple(&held_handler::number, &held_handler::waits_for, &held_handler::name);
  }
};

/// What a question waits for.
enum class prospect : std::uint8_t {
  open,          ///< it may be answered, as far as its node can say
  handler,       ///< the end of the wait of that number
  thread,        ///< a thread that could run the call; all are held by handlers that wait
  thread_actor,  ///< the same for the actor
};

struct outlook {
  prospect what = prospect::open;
  std::uint64_t handler = 0;

  friend constexpr auto troupe_fields(const outlook*) {
    return std::make_tuple(&outlook::what, &outlook::handler);
  }
};

/// A node's answer to several questions, at one moment: an outlook for each, and the handlers that
/// these name; all of the node's, if one of them waits for a thread.
struct report {
  std::vector<outlook> outlooks;
  std::vector<held_handler> handlers;
  std::uint32_t max_threads = 0;  ///< set if one of them waits for a thread

  friend constexpr auto troupe_fields(const report*) {
    return std::make_tuple(&report::outlooks, &report::handlers, &report::max_threads);
  }
};

}  // namespace troupe::deadlock
