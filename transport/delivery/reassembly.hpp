#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "troupe/messages/envelope/frame.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe::transport {

/// Reassembles the messages of one peer from envelopes and payloads that arrive in any order and
/// perhaps twice, and releases them by the rules of `transport`: each once, those of one non-zero
/// `order` as they were sent, others as soon as they are complete.
///
/// Sequence numbers count a peer's messages from 0. Nothing is released past a missing envelope,
/// since it might belong to any order. Memory is taken for what has arrived, not for what was
/// announced. Not thread-safe.
class reassembly {
public:
  /// How far ahead of the first missing envelope a peer may be.
  static constexpr std::uint64_t window = 1u << 20;

  explicit reassembly(rank_t from) : from_(from) {}

  /// Throws decode_error if message `sequence` is further ahead.
  void check(std::uint64_t sequence) const {
    if (sequence >= next_) check_window(sequence);
  }

  /// Takes the envelope of message `sequence`, which has `payloads` payloads, and appends what has
  /// become complete to `out`. Throws decode_error when the numbers make no sense.
  void envelope(std::uint64_t sequence, std::uint64_t order, std::size_t payloads, frame&& bytes,
                std::vector<incoming_message>& out) {
    // The hot path: the next message, whole, and nothing incomplete before it.
    if (sequence == next_ && payloads == 0 && partial_.empty()) {
      ++next_;
      out.push_back({from_, std::move(bytes), {}});
      return;
    }
    slow_envelope(sequence, order, payloads, std::move(bytes), out);
  }

  /// Takes payload `index` of message `sequence`; otherwise like `envelope`.
  void payload(std::uint64_t sequence, std::size_t index, incoming_payload&& payload,
               std::vector<incoming_message>& out);

  /// The number below which every message has arrived completely. Amortized constant time per
  /// message.
  std::uint64_t expected();

  /// Messages begun and not yet released.
  std::size_t incomplete() const noexcept { return partial_.size(); }

private:
  // A message in transit. `expected` counts from the envelope; until then payloads are collected.
  struct part {
    std::uint64_t order = 0;
    bool has_envelope = false;
    bool admitted = false;
    std::size_t expected = 0;
    frame envelope;
    std::vector<std::uint16_t> indices;  // of the payloads that have arrived, ascending
    std::vector<incoming_payload> payloads;

    bool complete() const noexcept { return has_envelope && payloads.size() == expected; }
  };
  using parts = std::unordered_map<std::uint64_t, part>;

  void slow_envelope(std::uint64_t sequence, std::uint64_t order, std::size_t payloads,
                     frame&& bytes, std::vector<incoming_message>& out);
  void check_window(std::uint64_t sequence) const;
  void admit(std::vector<incoming_message>& out);
  void release_order(std::uint64_t order, std::vector<incoming_message>& out);
  void release(parts::iterator at, std::vector<incoming_message>& out);

  rank_t from_;
  std::uint64_t next_ = 0;   // the first envelope not yet seen
  std::uint64_t whole_ = 0;  // all messages below are complete; at most `next_`
  parts partial_;
  // Admitted and unreleased messages of each non-zero order, oldest first.
  std::unordered_map<std::uint64_t, std::deque<std::uint64_t>> queues_;
};

}  // namespace troupe::transport
