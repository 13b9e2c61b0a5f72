#include "troupe/transport/delivery/retransmit_queue.hpp"

#include <algorithm>

namespace troupe::transport {

namespace {

std::uint64_t size_of(const sent_message& m) {
  std::uint64_t size = m.envelope.size();
  for (const auto& payload : m.payloads) size += payload.size;
  return size;
}

}  // namespace

void retransmit_queue::keep(message sent) {
  const std::lock_guard lock(mutex_);
  if (sent->sequence < first_) return;  // the acknowledgement was faster
  const auto index = sent->sequence - first_;
  if (index >= messages_.size()) messages_.resize(index + 1);
  bytes_ += size_of(*sent);
  ++size_;
  messages_[index] = std::move(sent);
}

void retransmit_queue::acknowledge(std::uint64_t next) {
  std::vector<message> done;
  const std::lock_guard lock(mutex_);
  for (; first_ < next && !messages_.empty(); ++first_) {
    if (auto& oldest = messages_.front()) {
      bytes_ -= size_of(*oldest);
      --size_;
      done.push_back(std::move(oldest));
    }
    messages_.pop_front();
  }
  first_ = std::max(first_, next);
}

std::vector<retransmit_queue::message> retransmit_queue::all() const {
  std::vector<message> out;
  const std::lock_guard lock(mutex_);
  for (const auto& m : messages_)
    if (m) out.push_back(m);
  return out;
}

std::vector<retransmit_queue::message> retransmit_queue::from(std::uint64_t first,
                                                              std::size_t most) const {
  std::vector<message> out;
  const std::lock_guard lock(mutex_);
  for (auto i = first - std::min(first, first_); i < messages_.size() && out.size() < most; ++i)
    if (messages_[i]) out.push_back(messages_[i]);
  return out;
}

std::uint64_t retransmit_queue::acknowledged() const {
  const std::lock_guard lock(mutex_);
  return first_;
}

std::size_t retransmit_queue::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

std::uint64_t retransmit_queue::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void retransmit_queue::clear() {
  std::deque<message> gone;
  const std::lock_guard lock(mutex_);
  first_ += messages_.size();
  gone.swap(messages_);
  bytes_ = 0;
  size_ = 0;
}

}  // namespace troupe::transport
