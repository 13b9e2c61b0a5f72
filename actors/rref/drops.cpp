#include "troupe/actors/rref/drops.hpp"

#include <new>

#include "troupe/actors/messaging/outbox.hpp"
#include "troupe/actors/rref/rref_message.hpp"

namespace troupe::detail {

drops::channel* drops::find(const peer& other) noexcept {
  if (last_ && &last_->with == &other) return last_;
  const auto place = channels_.find(&other);
  return place == channels_.end() ? nullptr : last_ = &place->second;
}

drops::channel& drops::channel_to(peer& other) {
  if (auto* known = find(other)) return *known;
  return *(last_ = &channels_.try_emplace(&other, other).first->second);
}

// Hot path: no allocation, and one lock.
void drops::add(peer& owner, const rref_id& id, std::uint64_t use) noexcept {
  try {
    guard lock(mutex_);
    // A peer is marked as lost before `evict` runs: what is added here is there by then.
    if (closed_ || !owner.live()) return;
    auto& to = channel_to(owner);
    if (to.queue.pass()) {
      lock.unlock();
      if (send_one(owner, id, use)) return;
      lock.lock();
      if (closed_ || !owner.live()) return;
      mark(to, true);
      to.queue.take_back(id, use);
    } else {
      to.queue.add(id, use);
      send_uses(to, lock);
    }
  } catch (const std::bad_alloc&) {
    // The use is forgotten: the owner keeps the value for as long as this node lives.
  }
}

bool drops::send_one(peer& owner, const rref_id& id, std::uint64_t use) const noexcept {
  try {
    message_builder message(nullptr);
    message.body().put(rref_message::drop);
    message.body().put(owner.incarnation);
    drop_queue::write_one(message.body(), id, use);
    return send_(owner, message);
  } catch (const std::exception&) {
    return false;
  }
}

void drops::take(decoder& in, peer& from, const listener& ended) {
  rref_id id;
  id.owner = self_;
  id.owner_incarnation = in.get<std::uint64_t>();
  std::uint64_t uses = 0;
  for (auto left = in.get<std::uint64_t>(); left > 0; --left) {
    const auto some = in.get<dropped_uses>();
    uses += some.count;
    if (uses > drop_queue::most_uses)
      throw decode_error("a message claims that " + std::to_string(uses) +
                         " references were dropped");
    id.creator = some.creator;
    id.creator_incarnation = some.creator_incarnation;
    for (std::uint32_t i = 0; i < some.count; ++i) {
      id.number = some.first + i;
      ended(id, some.use);
    }
  }
  guard lock(mutex_);
  auto& to = channel_to(from);
  ++to.taken;
  send_acknowledgement(to, lock);
}

void drops::acknowledged(const peer& owner, std::uint32_t messages) noexcept {
  guard lock(mutex_);
  auto* to = find(owner);
  if (!to) return;
  to->queue.acknowledged(messages);
  send_uses(*to, lock);
}

// Sends as many messages as the window allows. `ready` is false while another thread sends, which
// then sends this thread's entries too.
void drops::send_uses(channel& to, guard& lock) noexcept {
  try {
    while (to.queue.ready()) {
      message_builder message(nullptr);
      message.body().put(rref_message::drop);
      message.body().put(to.with.incarnation);
      to.queue.write(message.body());
      if (!send(to, message, lock)) return to.queue.not_sent();
      to.queue.sent();
    }
  } catch (const std::exception&) {
    mark(to, true);
  }
}

void drops::send_acknowledgement(channel& to, guard& lock) noexcept {
  if (to.taken < drop_queue::acknowledged_at_once) return;
  try {
    message_builder message(nullptr);
    message.body().put(rref_message::dropped);
    message.body().put(to.taken);
    const auto messages = std::exchange(to.taken, 0);
    if (!send(to, message, lock)) to.taken += messages;
  } catch (const std::exception&) {
    mark(to, true);
  }
}

// Without the lock: sending may block, and may come back here. The channel still exists afterwards,
// but its queue may have been cleared.
bool drops::send(channel& to, message_builder& message, guard& lock) noexcept {
  lock.unlock();
  const bool sent = send_(to.with, message);
  lock.lock();
  if (!sent) mark(to, true);
  return sent;
}

void drops::send_again(const peer& other) noexcept {
  guard lock(mutex_);
  auto* to = find(other);
  if (!to || !to->unsent) return;
  mark(*to, false);
  send_acknowledgement(*to, lock);
  send_uses(*to, lock);
}

// Nothing is sent again to a lost peer.
void drops::mark(channel& one, bool unsent) noexcept {
  unsent = unsent && one.with.live();
  if (one.unsent == unsent) return;
  one.unsent = unsent;
  unsent ? ++unsent_ : --unsent_;
}

void drops::evict(const peer& whom) noexcept {
  const guard lock(mutex_);
  auto* gone = find(whom);
  if (!gone) return;
  gone->queue.clear();
  gone->taken = 0;
  mark(*gone, false);
}

void drops::close() noexcept {
  const guard lock(mutex_);
  closed_ = true;
  for (auto& [other, one] : channels_) one.queue.clear();
}

std::size_t drops::waiting() const {
  const guard lock(mutex_);
  std::size_t entries = 0;
  for (const auto& [other, one] : channels_) entries += one.queue.waiting();
  return entries;
}

}  // namespace troupe::detail
