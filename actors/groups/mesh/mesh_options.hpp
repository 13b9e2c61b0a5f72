#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "troupe/actors/groups/process_group/group_options.hpp"

namespace troupe {

/// A dimension of a mesh, by its number, from 0 on, or its name.
using mesh_dim = std::variant<int, std::string>;

struct mesh_options {
  /// One name for each dimension; empty: they have none. None twice.
  std::vector<std::string> mesh_dim_names{};
  /// How the groups of some dimensions are made, in place of how the mesh's own group was: their
  /// backend, its options, a timeout, a name, to which the dimension and the place of each group
  /// are added.
  std::map<mesh_dim, group_options> backend_override{};
};

}  // namespace troupe
