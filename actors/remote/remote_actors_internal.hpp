#pragma once

// What the parts of `remote_actors` share.

#include "troupe/actors/messaging/due.hpp"
#include "troupe/actors/remote/actor_proxy.hpp"
#include "troupe/actors/remote/remote_actors.hpp"

namespace troupe {

/// Messages between nodes about actors, on the handles_channel. First in the body.
enum class control : std::uint8_t {
  watch,    // id: notify me when it ends
  down,     // id, reason: it has ended
  release,  // id, count: I have dropped so many handles
  claim,    // id, rank, incarnation, pin: I have a handle of yours from that node
  unpin,    // pin, rank, incarnation: that node has claimed the handle which you passed on
  window,   // signal, two numbers: of flow_control
};

/// What went wrong just now, while a message was written or read: one of our errors, or what a
/// user's type threw.
inline fault unreadable() { return describe(std::current_exception(), {}, {}); }

/// Notifies all watchers in the list of the end.
inline void notify(const caf::attachable_ptr& watchers, const caf::error& why,
                   caf::execution_unit* unit) {
  for (auto* i = watchers.get(); i; i = i->next.get()) i->actor_exited(why, unit);
}

template <class... Ts>
void remote_actors::send_control(peer& to, const Ts&... xs) noexcept {
  out_.try_send_control(to, handles_channel, xs...);
}

}  // namespace troupe
