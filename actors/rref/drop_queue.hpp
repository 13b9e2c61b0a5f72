#pragma once

#include <cstdint>
#include <vector>

#include "troupe/actors/messaging/rref_id.hpp"

namespace troupe {

class encoder;

namespace detail {

/// Uses of values of one owner that have ended: of one value, or, if it is use 0, of `count` values
/// with numbers that follow one another.
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

/// The ends of uses that one owner has yet to be told of. Only so many messages about them are
/// under way; what ends meanwhile is gathered, next to nothing for each, and goes in few messages
/// when the owner has taken some up. What waits is sent by one message at a time, and stays in the
/// queue until that has been sent. Not thread-safe.
class drop_queue {
public:
  /// Messages that the owner has not said it has taken up.
  static constexpr std::uint32_t most_under_way = 64;
  /// The owner says so after each so many.
  static constexpr std::uint32_t told_after = 16;
  /// Of one message, so that neither it nor what the owner has to do for it is large.
  static constexpr std::size_t most_entries = 96;
  static constexpr std::uint32_t most_uses = 4096;

  /// As it is on the wire.
  using message = std::vector<dropped_uses>;

  /// Hot path: true if nothing waits and a message may be sent. That is then one about a single
  /// use, which counts as under way and is not added; `write_one` writes it, and if it could not be
  /// sent, `take_back` adds it after all.
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

  /// Writes a message of what goes next. It counts as under way, and no other may be sent until
  /// `sent` or `not_sent` says what has become of it. Pre: `ready()`. Throws std::bad_alloc; the
  /// queue is as before then.
  void write(encoder& out);
  void sent() noexcept;
  void not_sent() noexcept;

  /// The owner has taken up so many messages.
  void taken_up(std::uint32_t messages) noexcept {
    under_way_ -= messages < under_way_ ? messages : under_way_;
  }

  /// There is nobody to be told any more. Any time, also while a message is being sent.
  void clear() noexcept;

  /// What waits or is being sent, in entries.
  std::size_t waiting() const noexcept { return entries_.size() - first_; }

private:
  void not_under_way() noexcept {
    if (under_way_ > 0) --under_way_;
  }

  std::vector<dropped_uses> entries_;  // from `first_` on
  std::size_t first_ = 0;
  std::uint32_t under_way_ = 0;
  // Of the message that is being sent: so many entries, and so much of the next.
  bool sending_ = false;
  std::size_t whole_ = 0;
  std::uint32_t part_ = 0;
};

}  // namespace detail

}  // namespace troupe
