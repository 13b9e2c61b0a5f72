#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "troupe/actors/groups/mesh/mesh_options.hpp"
#include "troupe/actors/groups/mesh/mesh_state.hpp"

// The dimensions of a mesh, by name and number. All of them throw invalid_argument for one that
// there is not, in PyTorch's words where it has some.
namespace troupe::groups {

std::vector<mesh_axis> axes_of(const std::vector<mesh_dimension>& dimensions);

/// Of those that have one.
std::vector<std::string> names_of(const mesh_state& it);

const mesh_dimension& only_dimension(const mesh_state& it);

/// Its number among those of this mesh.
std::size_t number_of_dimension(const mesh_state& it, const mesh_dim& dim);

/// Also a flattened one, if this is the root mesh.
mesh_dimension named_dimension(const mesh_state& it, const std::string& name);
mesh_dimension find_dimension(const mesh_state& it, const mesh_dim& dim);

}  // namespace troupe::groups
