#pragma once

#include <array>
#include <memory>
#include <vector>

#include "troupe/actors/groups/backend/backend.hpp"
#include "troupe/actors/groups/process_group/group_description.hpp"

namespace troupe::groups {

/// The backends of one rank of a group.
struct group_backends {
  /// Of one device type: the one that was named, then what does the rest.
  std::vector<std::shared_ptr<backend>>& of(c10::DeviceType device) noexcept {
    return by_device[static_cast<std::size_t>(device)];
  }

  std::array<std::vector<std::shared_ptr<backend>>, c10::COMPILE_TIME_MAX_DEVICE_TYPES> by_device;
  bool checks_in_full = false;  ///< one of the members is at debug level `detail`

  std::vector<std::shared_ptr<backend>> all() const;
};

/// Agrees with the other members on what the group is, and makes its backends: everywhere or
/// nowhere. Blocks until all members call it. `limit`: for the whole of it. Throws
/// collective_mismatch, collective_timeout, group_failed where another rank could not make its
/// backends, and what a backend's factory throws.
std::unique_ptr<group_backends> agree_on(const group_description& about,
                                         const std::shared_ptr<network::group_channel>& channel,
                                         node_core& here, std::chrono::milliseconds limit);

}  // namespace troupe::groups
