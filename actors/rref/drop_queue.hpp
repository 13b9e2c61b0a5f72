#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "actors/rref/rref_id.hpp"

namespace troupe::detail {

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
/// when the owner has taken some up. Not thread-safe.
class drop_queue {
public:
  /// Messages that the owner has not said it has taken up.
  static constexpr std::uint32_t most_under_way = 64;
  /// The owner says so after each so many.
  static constexpr std::uint32_t told_after = 16;
  /// Of one message, so that neither it nor what the owner has to do for it is large.
  static constexpr std::size_t most_entries = 96;
  static constexpr std::uint32_t most_uses = 4096;

  using message = std::vector<dropped_uses>;

  void add(const rref_id& id, std::uint64_t use);

  /// What may be sent now, and then counts as under way; empty: nothing.
  message take();

  /// The owner has taken up so many messages.
  void taken_up(std::uint32_t messages) noexcept {
    under_way_ -= messages < under_way_ ? messages : under_way_;
  }

  /// What waits, in entries.
  std::size_t waiting() const noexcept { return waiting_.size(); }

private:
  std::deque<dropped_uses> waiting_;
  bool was_long_ = false;
  std::uint32_t under_way_ = 0;
};

}  // namespace troupe::detail
