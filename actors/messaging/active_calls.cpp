#include "troupe/actors/messaging/active_calls.hpp"

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/messages/base/random.hpp"

namespace troupe {

active_calls::~active_calls() { delete recent_.load(); }

// Mixing is one to one: no two requests of a node have the same mark.
std::uint64_t active_calls::mark_of(const active_call& call) noexcept {
  return splitmix64(call.request ^
                    splitmix64(splitmix64(call.from->incarnation) + call.from->rank()));
}

// Requests that wait at the same time differ in their lower half (see request_table).
std::size_t active_calls::place_of(const active_call& call) noexcept {
  return (call.request + 977 * std::size_t{call.from->rank()}) % std::tuple_size_v<marks>;
}

std::shared_ptr<detail::future_core> active_calls::cancel(const active_call& call) {
  const std::lock_guard guard(mutex_);
  auto* recent = recent_.load(std::memory_order_relaxed);
  // Pairs with the loads in `remembers` and `cancelled`: publishes the empty table. A mark
  // publishes nothing but itself: all else is under the lock.
  if (!recent) recent_.store(recent = new marks{}, std::memory_order_release);
  (*recent)[place_of(call)].store(mark_of(call), std::memory_order_release);
  const auto place = waiting_.find(call);
  if (place == waiting_.end() || std::exchange(place->second.cancelled, true)) return nullptr;
  return place->second.answer.lock();
}

bool active_calls::cancelled(const active_call& call) const noexcept {
  if (!recent_.load(std::memory_order_acquire)) return false;
  if (remembers(call)) return true;
  const std::lock_guard guard(mutex_);
  const auto place = waiting_.find(call);
  return place != waiting_.end() && place->second.cancelled;
}

bool active_calls::add(const active_call& call,
                       const std::shared_ptr<detail::future_core>& answer) {
  const std::lock_guard guard(mutex_);
  return !(waiting_[call] = {answer, remembers(call)}).cancelled;
}

void active_calls::remove(const active_call& call) noexcept {
  const std::lock_guard guard(mutex_);
  waiting_.erase(call);
}

std::size_t active_calls::size() const {
  const std::lock_guard guard(mutex_);
  return waiting_.size();
}

}  // namespace troupe
