#include "troupe/actors/groups/mesh/mesh_groups.hpp"

#include <c10/core/Device.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "troupe/actors/groups/backend/device_backends.hpp"
#include "troupe/actors/groups/process_group/group_core.hpp"
#include "troupe/actors/groups/process_group/group_service.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::groups {

void check_mesh_names(const std::vector<std::string>& names, std::size_t dimensions) {
  if (names.empty()) return;
  if (std::set(names.begin(), names.end()).size() != names.size())
    throw invalid_argument(
        fmt::format("Each mesh_dim_name must be unique. Found repeated mesh_dim_name in "
                    "mesh_dim_names ({})",
                    fmt::join(names, ", ")));
  if (names.size() != dimensions)
    throw invalid_argument(
        fmt::format("mesh_shape and mesh_dim_names should have same length! Found "
                    "len(mesh_dim_names): {} and len(mesh_shape): {}.",
                    names.size(), dimensions));
  for (const auto& one : names)
    if (one.empty()) throw invalid_argument("a dimension of a mesh has an empty name");
}

void check_mesh_device(const std::string& device_type) {
  try {
    if (!c10::Device(device_type).has_index()) return;
  } catch (const c10::Error&) {
    throw invalid_argument(fmt::format(
        "the device type '{}' of a mesh is none that libtorch knows: give \"cpu\" or \"cuda\", say",
        device_type));
  }
  throw invalid_argument(
      fmt::format("Device type with index is not supported but got {}.", device_type));
}

std::vector<const group_options*> overrides_by_dimension(
    const std::map<mesh_dim, group_options>& override, const std::vector<std::string>& names,
    std::size_t dimensions) {
  std::vector<const group_options*> out(dimensions);
  for (const auto& [dim, options] : override) {
    std::optional<std::size_t> found;
    if (const auto* number = std::get_if<int>(&dim)) {
      if (*number >= 0 && static_cast<std::size_t>(*number) < dimensions)
        found = static_cast<std::size_t>(*number);
    } else {
      const auto at = std::find(names.begin(), names.end(), std::get<std::string>(dim));
      if (at != names.end()) found = static_cast<std::size_t>(at - names.begin());
    }
    if (!found)
      throw invalid_argument(fmt::format(
          "Found invalid keys in backend_override: got {}, expected integers in range [0, {}) or "
          "one of ({})",
          std::visit([](const auto& key) { return fmt::format("{}", key); }, dim), dimensions,
          fmt::join(names, ", ")));
    if (out[*found])
      throw invalid_argument(
          fmt::format("Found redundant dim index {} and name {} in backend_override", *found,
                      *found < names.size() ? names[*found] : ""));
    out[*found] = &options;
  }
  return out;
}

namespace {

// The places of this rank's line, in the axis' order.
std::vector<std::int64_t> line_of(const mesh_axis& axis, std::int64_t place) {
  const auto first = place - axis.offset(axis.index_of(place));
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < axis.size(); ++i) out.push_back(first + axis.offset(i));
  return out;
}

std::vector<std::uint32_t> ranks_at(const mesh_root& root, const std::vector<std::int64_t>& line) {
  std::vector<std::uint32_t> out;
  out.reserve(line.size());
  for (const auto place : line) out.push_back(root.ranks[static_cast<std::size_t>(place)]);
  return out;
}

bool is_whole_world(const std::vector<int>& ranks, const process_group& world) {
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  return ranks == all;
}

void check_mesh_backend(const mesh_root& root, const process_group& group) {
  if (!parse_backends(group.backend()).contains(root.device_type))
    throw invalid_argument(
        fmt::format("the mesh is of {} devices, and the group '{}' has no backend for them: it has "
                    "{}; name one by backend_override",
                    root.device_type, group.name(), group.backend()));
}

}  // namespace

process_group make_line(const mesh_root& root, const mesh_axis& axis, const std::string& name,
                        const group_options* options) {
  if (!root.place) return {};
  const auto line = line_of(axis, *root.place);
  std::vector<int> ranks;
  ranks.reserve(line.size());
  for (const auto rank : ranks_at(root, line)) ranks.push_back(root.world.group_rank(rank));
  auto made = [&] {
    if (!options && is_whole_world(ranks, root.world)) return root.world;
    auto how = options ? *options : group_options{};
    if (!how.name.empty()) how.name += fmt::format("/{}/{}", name, line.front());
    if (how.description.empty()) how.description = "mesh_" + name;
    how.use_local_synchronization = true;  // each rank calls for its own line alone
    return root.world.new_group(ranks, how);
  }();
  check_mesh_backend(root, made);
  return made;
}

void check_line(const mesh_root& root, const mesh_axis& axis, const process_group& group) {
  const auto line = ranks_at(root, line_of(axis, *root.place));
  if (group.ranks() != line)
    throw invalid_argument(fmt::format("Invalid mesh ({}) for ProcessGroup with ranks ({})",
                                       fmt::join(line, ", "), fmt::join(group.ranks(), ", ")));
  check_mesh_backend(root, group);
}

process_group world_of(const process_group& group) {
  const auto* const core = group.member("device_mesh");
  return process_group(group_service::of(*core->node()).world());
}

}  // namespace troupe::groups
