#include "troupe/actors/rref/drops.hpp"

#include <new>

#include "troupe/actors/messaging/outbox.hpp"
#include "troupe/actors/rref/rref_message.hpp"

namespace troupe::detail {

drops::line* drops::find(const peer& other) noexcept {
  if (last_ && &last_->with == &other) return last_;
  const auto place = lines_.find(&other);
  return place == lines_.end() ? nullptr : last_ = &place->second;
}

drops::line& drops::line_of(peer& other) {
  if (auto* known = find(other)) return *known;
  return *(last_ = &lines_.try_emplace(&other, other).first->second);
}

// Hot path: no allocation, and one lock.
void drops::add(peer& owner, const rref_id& id, std::uint64_t use) noexcept {
  try {
    guard lock(mutex_);
    // It is lost before it is buried: what is added here is there when that happens.
    if (closed_ || !owner.live()) return;
    auto& to = line_of(owner);
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
    // Nothing remembers it: the owner keeps the value for as long as this node lives.
  }
}

bool drops::send_one(peer& owner, const rref_id& id, std::uint64_t use) const noexcept {
  try {
    message_builder text(nullptr);
    text.body().put(rref_message::drop);
    text.body().put(owner.incarnation);
    drop_queue::write_one(text.body(), id, use);
    return send_(owner, text);
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
      throw decode_error("a note claims that " + std::to_string(uses) + " references were dropped");
    id.creator = some.creator;
    id.creator_incarnation = some.creator_incarnation;
    for (std::uint32_t i = 0; i < some.count; ++i) {
      id.number = some.first + i;
      ended(id, some.use);
    }
  }
  guard lock(mutex_);
  auto& to = line_of(from);
  ++to.taken;
  send_taken(to, lock);
}

void drops::taken_up(const peer& owner, std::uint32_t notes) noexcept {
  guard lock(mutex_);
  auto* to = find(owner);
  if (!to) return;
  to->queue.taken_up(notes);
  send_uses(*to, lock);
}

// As many notes as may be under way now. Who finds another thread at it leaves its own to that one.
void drops::send_uses(line& to, guard& lock) noexcept {
  try {
    while (to.queue.ready()) {
      message_builder text(nullptr);
      text.body().put(rref_message::drop);
      text.body().put(to.with.incarnation);
      to.queue.write(text.body());
      if (!send(to, text, lock)) return to.queue.not_sent();
      to.queue.sent();
    }
  } catch (const std::exception&) {
    mark(to, true);
  }
}

void drops::send_taken(line& to, guard& lock) noexcept {
  if (to.taken < drop_queue::told_after) return;
  try {
    message_builder text(nullptr);
    text.body().put(rref_message::dropped);
    text.body().put(to.taken);
    const auto notes = std::exchange(to.taken, 0);
    if (!send(to, text, lock)) to.taken += notes;
  } catch (const std::exception&) {
    mark(to, true);
  }
}

// The line is there still, though what is on it may be gone.
bool drops::send(line& to, message_builder& note, guard& lock) noexcept {
  lock.unlock();
  const bool sent = send_(to.with, note);
  lock.lock();
  if (!sent) mark(to, true);
  return sent;
}

void drops::try_again(const peer& other) noexcept {
  guard lock(mutex_);
  auto* to = find(other);
  if (!to || !to->unsent) return;
  mark(*to, false);
  send_taken(*to, lock);
  send_uses(*to, lock);
}

// Nothing is sent again to one that is lost.
void drops::mark(line& one, bool unsent) noexcept {
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
  for (auto& [other, one] : lines_) one.queue.clear();
}

std::size_t drops::waiting() const {
  const guard lock(mutex_);
  std::size_t entries = 0;
  for (const auto& [other, one] : lines_) entries += one.queue.waiting();
  return entries;
}

}  // namespace troupe::detail
