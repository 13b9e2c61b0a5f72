#pragma once

#include <memory>

#include "troupe/actors/groups/backend/backend.hpp"
#include "troupe/actors/groups/network/group_channel.hpp"

namespace troupe::groups::network {

/// Collectives by messages between the nodes, wherever they are. All take tensors of the CPU and of
/// every dtype that has whole bytes.
///
/// Every rank sends its entry to every other, and compares them all; then the data follow. Values
/// are combined on one rank for each element, in the order of the ranks, so all get the same bits:
/// those of a reduction by any other backend.
class network_backend final : public backend {
public:
  /// Contributions of up to this many bytes travel with the entry.
  static constexpr std::size_t most_with_entry = 8 * 1024;

  explicit network_backend(std::shared_ptr<group_channel> channel) : channel_(std::move(channel)) {}

  std::string_view name() const noexcept override { return "network"; }
  bool supports(operation_kind kind, c10::ScalarType dtype,
                c10::DeviceType device) const noexcept override;
  void run(operation& what, const time_limit& limit) override;
  void abort(std::exception_ptr why) noexcept override { channel_->fail(std::move(why)); }

private:
  const std::shared_ptr<group_channel> channel_;
};

}  // namespace troupe::groups::network
