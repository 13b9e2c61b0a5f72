#pragma once

#include <cstdint>
#include <vector>

#include "troupe/actors/messaging/rref_id.hpp"

namespace troupe {

class encoder;

namespace detail {

/// Uses of values of one owner that have ended: a use of one value, or, if it is use 0, the uses of
/// `count` values with consecutive numbers.
struct dropped_uses {
  std::uint32_t creator = 0;
  std::uint32_t count = 0;
  std::uint64_t creator_incarnation = 0;
  std::uint64_t first = 0;
  std::uint64_t use = 0;

  friend constexpr auto troupe_fields(const dropped_uses*) {
    return std::make_tuple(&dropped_uses::creator, &dropped_uses::count,
                           &dropped_uses::creator_incarnation, &dropped_uses::first,
                           &dropped_uses::use);
  }
};

/// The ended uses that one owner has yet to be notified of. The number of messages under way is
/// limited (a window, like that of flow_control); uses that end meanwhile are batched, consecutive
/// ones into one entry, and sent when the owner has acknowledged some messages. One batch is sent
/// at a time, and stays in the queue until it has been sent. Not thread-safe.
class drop_queue {
public:
  /// Messages that the owner has not acknowledged.
  static constexpr std::uint32_t most_under_way = 64;
  /// The owner acknowledges this many at once.
  static constexpr std::uint32_t acknowledged_at_once = 16;
  /// Limits of one message, so that neither it nor the owner's work for it is large.
  static constexpr std::size_t most_entries = 96;
  static constexpr std::uint32_t most_uses = 4096;

  /// The wire format.
  using message = std::vector<dropped_uses>;

  /// Hot path: true if nothing waits and a message may be sent. The caller then sends one about a
  /// single use, which counts as under way and is not added; `write_one` writes it, and if it could
  /// not be sent, `take_back` adds the use after all.
  bool pass() noexcept {
    if (waiting() > 0 || under_way_ == most_under_way) return false;
    ++under_way_;
    return true;
  }
  static void write_one(encoder& out, const rref_id& id, std::uint64_t use);
  void take_back(const rref_id& id, std::uint64_t use) {
    not_under_way();
    add(id, use);
  }

  /// Throws std::bad_alloc; the queue is as before then.
  void add(const rref_id& id, std::uint64_t use);

  /// May a message be sent now?
  bool ready() const noexcept { return !sending_ && waiting() > 0 && under_way_ < most_under_way; }

  /// Writes the next batch. It counts as under way, and no other may be sent until `sent` or
  /// `not_sent` ends it. Pre: `ready()`. Throws std::bad_alloc; the queue is as before then.
  void write(encoder& out);
  void sent() noexcept;
  void not_sent() noexcept;

  /// The owner has acknowledged this many messages.
  void acknowledged(std::uint32_t messages) noexcept {
    under_way_ -= messages < under_way_ ? messages : under_way_;
  }

  /// The owner is lost, or this node ends. At any time, also while a message is being sent.
  void clear() noexcept;

  /// Entries that wait or are being sent.
  std::size_t waiting() const noexcept { return entries_.size() - first_; }

private:
  void not_under_way() noexcept {
    if (under_way_ > 0) --under_way_;
  }

  std::vector<dropped_uses> entries_;  // those before `first_` have been sent
  std::size_t first_ = 0;
  std::uint32_t under_way_ = 0;
  // The message that is being sent: this many whole entries, and this part of the next one.
  bool sending_ = false;
  std::size_t whole_ = 0;
  std::uint32_t part_ = 0;
};

}  // namespace detail

}  // namespace troupe
