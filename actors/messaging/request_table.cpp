#include "troupe/actors/messaging/request_table.hpp"

#include <algorithm>

namespace troupe {

std::uint64_t request_table::add(pending_request&& request) {
  std::lock_guard guard(mutex_);
  std::uint32_t index = first_free_;
  if (index == none) {
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    first_free_ = slots_[index].next_free;
  }
  auto& place = slots_[index];
  ++place.generation;
  place.request = std::move(request);
  ++used_;
  return std::uint64_t{place.generation} << 32 | (index + 1);
}

request_table::slot* request_table::find(std::uint64_t id, transport::rank_t peer) {
  auto index = static_cast<std::uint32_t>(id) - 1;
  if (index >= slots_.size() || slots_[index].generation != id >> 32 ||
      slots_[index].request.peer != peer)
    return nullptr;
  return &slots_[index];
}

pending_request request_table::take(std::uint64_t id, transport::rank_t peer) {
  std::lock_guard guard(mutex_);
  auto* found = find(id, peer);
  return found ? empty(static_cast<std::uint32_t>(found - slots_.data())) : pending_request{};
}

std::shared_ptr<reply_sink> request_table::sink_of(std::uint64_t id, transport::rank_t peer) {
  const std::lock_guard guard(mutex_);
  const auto* place = find(id, peer);
  return place ? place->request.sink : nullptr;
}

bool request_table::give_up(std::uint64_t id, transport::rank_t peer) {
  std::lock_guard guard(mutex_);
  auto* found = find(id, peer);
  if (!found || !found->request || found->request.late) return false;
  be_late(found->request);
  return true;
}

void request_table::be_late(pending_request& request) noexcept {
  request.late = true;
  request.deadline = clock::time_point::max();
  --used_;
}

std::vector<pending_request> request_table::take_peer(transport::rank_t peer) {
  std::lock_guard guard(mutex_);
  std::vector<pending_request> out;
  for (std::uint32_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].request && slots_[i].request.peer == peer) out.push_back(empty(i));
  return out;
}

std::vector<pending_request> request_table::take_all() {
  std::lock_guard guard(mutex_);
  std::vector<pending_request> out;
  for (std::uint32_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].request) out.push_back(empty(i));
  return out;
}

std::vector<pending_request> request_table::take_late() {
  std::lock_guard guard(mutex_);
  std::vector<pending_request> out;
  for (std::uint32_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].request && slots_[i].request.late) out.push_back(empty(i));
  return out;
}

std::vector<pending_request> request_table::take_expired(clock::time_point now,
                                                         clock::time_point& next) {
  std::lock_guard guard(mutex_);
  std::vector<pending_request> out;
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].request) continue;
    auto& request = slots_[i].request;
    if (request.deadline > now) {
      next = std::min(next, request.deadline);
    } else if (!request.late) {
      out.push_back(request);
      be_late(request);
    }
  }
  return out;
}

std::size_t request_table::size() const {
  std::lock_guard guard(mutex_);
  return used_;
}

// Empties a slot that may be empty already.
pending_request request_table::empty(std::uint32_t index) {
  auto& place = slots_[index];
  auto request = std::exchange(place.request, {});
  if (request) {
    place.next_free = std::exchange(first_free_, index);
    if (!request.late) --used_;
  }
  return request;
}

}  // namespace troupe
