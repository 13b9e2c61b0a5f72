#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "troupe/actors/groups/mesh/mesh_options.hpp"
#include "troupe/actors/groups/mesh/mesh_state.hpp"

// What a mesh is made of, checked, and the groups of its lines.
namespace troupe::groups {

/// Throws invalid_argument, in PyTorch's words where it has some.
void check_mesh_names(const std::vector<std::string>& names, std::size_t dimensions);
void check_mesh_device(const std::string& device_type);

/// What `override` has for each dimension; null: nothing. Throws invalid_argument for dimensions
/// that there are not, or that it names twice.
std::vector<const group_options*> overrides_by_dimension(
    const std::map<mesh_dim, group_options>& override, const std::vector<std::string>& names,
    std::size_t dimensions);

/// Makes this rank's group along an axis, and waits for the other members; none on a rank that is
/// not in the mesh.
process_group make_line(const mesh_root& root, const mesh_axis& axis, const std::string& name,
                        const group_options* options);

/// Throws invalid_argument if `group` is not this rank's line along an axis.
void check_line(const mesh_root& root, const mesh_axis& axis, const process_group& group);

/// The group of all nodes of its job. Pre: this node is a member.
process_group world_of(const process_group& group);

}  // namespace troupe::groups
