#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/groups/mesh/mesh_axis.hpp"
#include "troupe/actors/groups/process_group/process_group.hpp"

namespace troupe::groups {

/// One dimension of a mesh, and this rank's group along it.
struct mesh_dimension {
  mesh_axis axis{};
  std::string name{};
  process_group group{};  // none on a rank that is not in the mesh
};

/// What a mesh and all slices of it share.
struct mesh_root {
  process_group world;
  std::string device_type;
  std::vector<std::uint32_t> ranks;   // row-major
  std::optional<std::int64_t> place;  // of this rank among them
  std::vector<mesh_dimension> dimensions{};

  std::mutex mutex{};
  std::map<std::string, mesh_dimension> flattened{};  // under `mutex`
};

/// A mesh, or a slice of one.
struct mesh_state {
  std::shared_ptr<mesh_root> root;
  std::vector<mesh_dimension> dimensions;
};

}  // namespace troupe::groups
