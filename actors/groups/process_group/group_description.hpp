#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "troupe/actors/groups/backend/backend.hpp"

namespace troupe::groups {

/// What a group is made of. All members agree on it, except on the rank.
struct group_description {
  std::string name;
  std::string description;
  std::vector<group_member> members;  ///< by rank
  int rank = 0;                       ///< this node's
  std::chrono::milliseconds timeout{};
  std::map<std::string, std::string> backends;  ///< by device type
  std::map<std::string, std::string> backend_options;
  std::string trace_directory;
  std::string device;  ///< this node's; see group_options
};

}  // namespace troupe::groups
