#pragma once

#include <vector>

#include "troupe/actors/groups/backend/time_limit.hpp"
#include "troupe/actors/groups/network/entry.hpp"
#include "troupe/actors/groups/network/group_channel.hpp"

namespace troupe::groups::network {

/// One collective under way on one rank: its entry, and its packets by stage. One thread.
class collective_run {
public:
  collective_run(group_channel& channel, const operation& what, const time_limit& limit)
      : channel_(channel), what_(what), limit_(limit) {}

  /// Enters, with `data` for all others, and waits for all the others. Throws collective_mismatch
  /// if they ask for something else, collective_timeout, and what the channel failed with.
  void enter(std::span<const std::byte> data);

  int rank() const noexcept { return channel_.rank(); }
  int size() const noexcept { return channel_.size(); }
  /// What a rank has sent with its entry; this one's own is empty.
  std::span<const std::byte> data_of(int rank) const {
    return entries_.at(static_cast<std::size_t>(rank)).data;
  }

  /// Of a premul_sum, by rank.
  const std::vector<double>& factors() const noexcept { return factors_; }

  /// Stages are numbered from 1 on.
  void send(std::uint32_t stage, int to, std::span<const std::byte> bytes);
  void send(std::uint32_t stage, int to, const packet& content);

  /// Throws collective_timeout, and what the channel failed with; decode_error if it has another
  /// size.
  packet receive(std::uint32_t stage, int from, std::size_t size);

  operation_place place() const;

private:
  packet take(std::uint32_t stage, int from);

  group_channel& channel_;
  const operation& what_;
  const time_limit& limit_;
  std::vector<entry> entries_;  // by rank
  std::vector<double> factors_;
};

}  // namespace troupe::groups::network
