#pragma once

#include <memory>

#include "troupe/actors/groups/backend/backend.hpp"
#include "troupe/actors/groups/network/group_channel.hpp"
#include "troupe/actors/groups/schedules/network_ways.hpp"

namespace troupe::groups::network {

/// Collectives by messages between the nodes, wherever they are. All take tensors of the CPU and of
/// every dtype that has whole bytes.
///
/// Every rank hears of every other's entry, and compares them all, before it writes anything.
/// Values are combined on one rank for each element, in the order of the ranks, so all get the same
/// bits: those of a reduction by any other backend. Where the order makes no difference, or
/// `network_ways::any_order` says so, the schedules that combine in others are used too.
class network_backend final : public backend {
public:
  /// `ways` are the same on all ranks.
  network_backend(std::shared_ptr<group_channel> channel, network_ways ways)
      : channel_(std::move(channel)), ways_(std::move(ways)) {}
  explicit network_backend(std::shared_ptr<group_channel> channel)
      : channel_(std::move(channel)), ways_(channel_->size()) {}

  std::string_view name() const noexcept override { return "network"; }
  bool supports(operation_kind kind, c10::ScalarType dtype,
                c10::DeviceType device) const noexcept override;
  void run(operation& what, const time_limit& limit) override;
  void abort(std::exception_ptr why) noexcept override { channel_->fail(std::move(why)); }

  const network_ways& ways() const noexcept { return ways_; }

private:
  const std::shared_ptr<group_channel> channel_;
  const network_ways ways_;
};

}  // namespace troupe::groups::network
