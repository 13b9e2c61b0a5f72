#include "troupe/transport/delivery/reassembly.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport {

void reassembly::check_window(std::uint64_t sequence) const {
  if (sequence - next_ >= window)
    throw decode_error("node " + std::to_string(from_) + " sent message " +
                       std::to_string(sequence) + " while message " + std::to_string(next_) +
                       " is awaited");
}

void reassembly::slow_envelope(std::uint64_t sequence, std::uint64_t order, std::size_t payloads,
                               frame&& bytes, std::vector<incoming_message>& out) {
  if (sequence < next_) return;  // seen before
  check_window(sequence);
  if (payloads > max_payloads)
    throw decode_error("node " + std::to_string(from_) + " sent a message of " +
                       std::to_string(payloads) + " payloads; the most is " +
                       std::to_string(max_payloads));
  if (sequence == next_ && payloads == 0 && (order == 0 || !queues_.contains(order)) &&
      !partial_.contains(sequence)) {
    ++next_;
    out.push_back({from_, std::move(bytes), {}});
    admit(out);
    return;
  }
  part& p = partial_[sequence];
  if (p.has_envelope) return;
  if (!p.indices.empty() && p.indices.back() >= payloads)
    throw decode_error("node " + std::to_string(from_) + " sent more payloads than message " +
                       std::to_string(sequence) + " has");
  p.has_envelope = true;
  p.order = order;
  p.expected = payloads;
  p.envelope = std::move(bytes);
  if (sequence == next_) admit(out);
}

void reassembly::payload(std::uint64_t sequence, std::size_t index, incoming_payload&& payload,
                         std::vector<incoming_message>& out) {
  auto at = partial_.find(sequence);
  if (at == partial_.end()) {
    if (sequence < next_) return;  // of a message already released
    check_window(sequence);
  }
  const bool known = at != partial_.end() && at->second.has_envelope;
  if (index >= (known ? at->second.expected : max_payloads))
    throw decode_error("node " + std::to_string(from_) + " sent payload " + std::to_string(index) +
                       ", which message " + std::to_string(sequence) + " does not have");
  if (at == partial_.end()) at = partial_.try_emplace(sequence).first;
  part& p = at->second;
  const auto place = std::ranges::lower_bound(p.indices, index);
  if (place != p.indices.end() && *place == index) return;
  p.payloads.insert(p.payloads.begin() + (place - p.indices.begin()), std::move(payload));
  p.indices.insert(place, static_cast<std::uint16_t>(index));
  if (!p.admitted || !p.complete()) return;
  if (p.order == 0)
    release(at, out);
  else
    release_order(p.order, out);
}

std::uint64_t reassembly::expected() {
  for (; whole_ < next_; ++whole_) {
    if (partial_.empty()) {
      whole_ = next_;
      break;
    }
    const auto at = partial_.find(whole_);
    if (at != partial_.end() && !at->second.complete()) break;
  }
  return whole_;
}

// Admits every message whose predecessors' envelopes have all arrived.
void reassembly::admit(std::vector<incoming_message>& out) {
  for (auto at = partial_.find(next_); at != partial_.end() && at->second.has_envelope;
       at = partial_.find(next_)) {
    ++next_;
    part& p = at->second;
    p.admitted = true;
    if (p.order == 0) {
      if (p.complete()) release(at, out);
      continue;
    }
    const auto queue = queues_.find(p.order);
    if (queue == queues_.end() && p.complete()) {
      release(at, out);
      continue;
    }
    if (queue == queues_.end())
      queues_[p.order].push_back(at->first);
    else
      queue->second.push_back(at->first);
  }
}

void reassembly::release_order(std::uint64_t order, std::vector<incoming_message>& out) {
  const auto queue = queues_.find(order);
  while (!queue->second.empty()) {
    const auto at = partial_.find(queue->second.front());
    if (!at->second.complete()) return;
    queue->second.pop_front();
    release(at, out);
  }
  queues_.erase(queue);
}

void reassembly::release(parts::iterator at, std::vector<incoming_message>& out) {
  part& p = at->second;
  out.push_back({from_, std::move(p.envelope), std::move(p.payloads)});
  partial_.erase(at);
}

}  // namespace troupe::transport
