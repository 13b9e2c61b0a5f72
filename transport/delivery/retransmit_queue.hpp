#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "troupe/transport/transport.hpp"

namespace troupe::transport {

/// A message as it was handed to `transport::send`: enough to send it again.
struct sent_message {
  std::uint64_t sequence = 0;
  std::uint64_t order = 0;
  frame envelope;
  std::vector<outgoing_payload> payloads;  ///< by reference: `keep` holds their bytes
};

/// The messages that one peer has been sent and has not acknowledged, in the order of their
/// numbers. While a connection lives nothing is sent again; a new connection starts with all of it.
/// Thread-safe.
class retransmit_queue {
public:
  using message = std::shared_ptr<const sent_message>;

  /// Adds a message. Messages may be added in any order, each number once; one that was
  /// acknowledged before is dropped.
  void keep(message sent);

  /// The peer has all messages below `next`. They are dropped outside of the lock.
  void acknowledge(std::uint64_t next);

  /// All messages, in order.
  std::vector<message> all() const;

  /// The messages from number `first` on, in order, at most `most`. Numbers that have not been
  /// added yet are left out.
  std::vector<message> from(std::uint64_t first, std::size_t most) const;

  /// The number below which everything is acknowledged.
  std::uint64_t acknowledged() const;

  std::size_t size() const;
  std::uint64_t bytes() const;  ///< envelopes and payloads

  /// Drops everything: the peer is lost.
  void clear();

private:
  mutable std::mutex mutex_;
  std::uint64_t first_ = 0;       // of `messages_`; all below is acknowledged
  std::deque<message> messages_;  // by number; null: not yet added
  std::uint64_t bytes_ = 0;
  std::size_t size_ = 0;
};

}  // namespace troupe::transport
