#pragma once

#include <memory>

#include "troupe/actors/groups/backend/backend.hpp"
#include "troupe/actors/groups/network/group_channel.hpp"

namespace troupe::groups::network {

/// The exchange of bytes between the ranks of a group while it is made. One thread.
class channel_exchange final : public member_exchange {
public:
  channel_exchange(group_channel& channel, const time_limit& limit);
  /// Of some of its ranks, with this one among them. Two exchanges of a group begin at different
  /// `first_stage`s, far apart.
  channel_exchange(group_channel& channel, const time_limit& limit, std::vector<int> ranks,
                   std::uint32_t first_stage)
      : channel_(channel), limit_(limit), ranks_(std::move(ranks)), stage_(first_stage) {}

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override;
  std::exception_ptr failure() const override { return channel_.failure(); }

private:
  group_channel& channel_;
  const time_limit& limit_;
  std::vector<int> ranks_;
  std::uint32_t stage_ = 0;
};

}  // namespace troupe::groups::network
