// A failed operation of UCX on a peer of this host is usually the first sign of the peer's end: its
// memory is unmapped a moment before the process ends, and its leave notice may lie in a queue that
// has not been read. So the peer is only suspected, until it is known what has become of it.

#include <algorithm>

#include "troupe/transport/ucx/backend.hpp"

namespace troupe::transport::ucx {

namespace {

// How long a process may take to end once its memory is unmapped.
constexpr std::chrono::milliseconds longest_end{500};

}  // namespace

void backend::suspect(peer& p, const peer_loss& why) {
  if (std::ranges::any_of(suspects_, [&](const suspicion& one) { return one.whom == &p; })) return;
  suspects_.push_back({&p, why, link::clock::now() + longest_end});
  look_ = true;
  take_what_is_left(p);
}

// A leave notice, or the end of the process, takes a suspect from the list.
unsigned backend::attend_to_suspects() {
  const auto now = link::clock::now();
  std::vector<suspicion> over;
  std::erase_if(suspects_, [&](const suspicion& one) {
    if (now < one.until) return false;
    over.push_back(one);
    return true;
  });
  for (const auto& one : over) lose(*one.whom, one.why);
  return static_cast<unsigned>(over.size());
}

}  // namespace troupe::transport::ucx
