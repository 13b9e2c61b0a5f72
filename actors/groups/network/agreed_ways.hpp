#pragma once

#include <vector>

#include "troupe/actors/groups/backend/backend.hpp"
#include "troupe/actors/groups/schedules/network_ways.hpp"

namespace troupe::groups::network {

/// What the ranks of a group have found out about where they are.
struct group_places {
  std::vector<int> host_of;  ///< by rank; hosts are numbered as they come
  int hosts = 0;
  bool simulated = false;  ///< one thread runs all ranks: none may wait for another in a kernel
  network_ways ways{1};
};

/// All ranks of a group call it while the group is made. The rules are rank 0's. Without figures of
/// a link in them, and where they matter, which is with three ranks and more on more than one host,
/// rank 0 measures them: some messages of no bytes and of 1 MiB to the first rank of another host
/// and back. Throws what the exchange throws, and invalid_argument for wrong rules.
group_places agree_on_places(const backend_request& request);

}  // namespace troupe::groups::network
