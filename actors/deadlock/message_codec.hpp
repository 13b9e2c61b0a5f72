#pragma once

#include <algorithm>
#include <string>

#include "troupe/actors/deadlock/wait_messages.hpp"
#include "troupe/messages/codec/archive.hpp"

// The lists in messages: questions, or numbers of waits.
namespace troupe::deadlock {

/// Reads a list. Throws decode_error, also when it is longer than a message's may be.
template <class T>
std::vector<T> get_list(decoder& in) {
  auto out = in.get<std::vector<T>>();
  if (out.size() > most_in_message)
    throw decode_error("a message about handlers that wait lists " + std::to_string(out.size()) +
                       ", of at most " + std::to_string(most_in_message));
  return out;
}

/// Calls `send` with all of them, as many at a time as a message may list.
template <class T, class Send>
void in_messages(const std::vector<T>& all, const Send& send) {
  for (auto from = all.begin(); from != all.end();) {
    const auto to = from + std::min<std::ptrdiff_t>(all.end() - from, most_in_message);
    send(std::vector<T>(from, to));
    from = to;
  }
}

}  // namespace troupe::deadlock
