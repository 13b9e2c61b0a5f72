#pragma once

#include <map>
#include <memory>
#include <vector>

#include "troupe/actors/groups/backend/backend.hpp"
#include "troupe/actors/groups/group_description.hpp"

namespace troupe::groups {

/// The backends of one rank of a group.
struct group_backends {
  /// Of one device type: the one that was named first, then what does the rest.
  std::map<c10::DeviceType, std::vector<std::shared_ptr<backend>>> by_device;

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
