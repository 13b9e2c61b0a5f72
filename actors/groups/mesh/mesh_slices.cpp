#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "troupe/actors/groups/mesh/device_mesh.hpp"
#include "troupe/actors/groups/mesh/mesh_dimensions.hpp"
#include "troupe/actors/groups/mesh/mesh_groups.hpp"
#include "troupe/messages/base/error.hpp"

// Meshes that are made of others.
namespace troupe {

namespace {

using groups::mesh_axis;
using groups::mesh_dimension;

device_mesh mesh_with(const groups::mesh_state& like, std::vector<mesh_dimension> dimensions) {
  return device_mesh(std::make_shared<const groups::mesh_state>(
      groups::mesh_state{like.root, std::move(dimensions)}));
}

// Does a combination of indices mean the same rank as another one?
bool overlaps(const std::vector<mesh_axis>& axes, std::size_t ranks) {
  std::size_t size = 1;
  for (const auto& one : axes) {
    size *= static_cast<std::size_t>(one.size());
    if (size > ranks) return true;
  }
  auto all = groups::mesh_offsets(axes);
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) != all.end();
}

void check_names(const std::vector<mesh_dimension>& dimensions) {
  std::vector<std::string> names;
  for (const auto& one : dimensions)
    if (!one.name.empty()) names.push_back(one.name);
  groups::check_mesh_names(names, names.size());
}

// `what` says that some have ranks in common.
void check_apart(const std::vector<mesh_dimension>& dimensions, std::size_t ranks,
                 const std::string& what) {
  if (overlaps(groups::axes_of(dimensions), ranks)) throw invalid_argument(what);
  check_names(dimensions);
}

}  // namespace

device_mesh device_mesh::operator[](const std::string& mesh_dim_name) const {
  return (*this)[{mesh_dim_name}];
}

device_mesh device_mesh::operator[](std::initializer_list<std::string> mesh_dim_names) const {
  return (*this)[std::vector<std::string>(mesh_dim_names)];
}

device_mesh device_mesh::operator[](const std::vector<std::string>& mesh_dim_names) const {
  const auto& it = known();
  if (this->mesh_dim_names().empty())
    throw invalid_argument("Cannot slice a DeviceMesh without mesh_dim_names!");
  if (mesh_dim_names.empty())
    throw invalid_argument("a slice of a mesh has at least one dimension");
  std::vector<mesh_dimension> dimensions;
  dimensions.reserve(mesh_dim_names.size());
  for (const auto& name : mesh_dim_names) dimensions.push_back(groups::named_dimension(it, name));
  check_apart(dimensions, it.root->ranks.size(),
              fmt::format("Invalid mesh_dim_names ({}) specified: some have ranks in common",
                          fmt::join(mesh_dim_names, ", ")));
  return mesh_with(it, std::move(dimensions));
}

device_mesh device_mesh::flatten(const std::string& name, const group_options& options) const {
  const auto& it = known();
  auto& root = *it.root;
  const auto names = mesh_dim_names();
  if (names.empty()) throw invalid_argument("Cannot flatten a DeviceMesh without mesh_dim_names!");
  const auto flat = name.empty() ? fmt::format("{}", fmt::join(names, "_")) : name;
  if (ndim() == 1 && names[0] == flat) return *this;
  for (const auto& one : root.dimensions)
    if (one.name == flat)
      throw invalid_argument(
          fmt::format("{} already exists for submesh of the mesh. Please specify another valid "
                      "mesh_dim_name.",
                      flat));
  const auto axis = mesh_axis::joined(groups::axes_of(it.dimensions));
  const auto made_before = [&]() -> std::optional<mesh_dimension> {
    const std::lock_guard lock(root.mutex);
    const auto found = root.flattened.find(flat);
    if (found == root.flattened.end()) return std::nullopt;
    if (found->second.axis == axis) return found->second;
    throw invalid_argument(fmt::format(
        "Flatten mesh with mesh_dim_name {} has been created before. Please specify another valid "
        "mesh_dim_name.",
        flat));
  };
  if (const auto before = made_before()) return mesh_with(it, {*before});
  const bool as_the_world = options == group_options{};
  mesh_dimension made{axis, flat,
                      groups::make_line(root, axis, flat, as_the_world ? nullptr : &options)};
  const std::lock_guard lock(root.mutex);
  return mesh_with(it, {root.flattened.emplace(flat, std::move(made)).first->second});
}

device_mesh device_mesh::unflatten(const mesh_dim& dim, const std::vector<std::int64_t>& sizes,
                                   const mesh_options& options) const {
  const auto& it = known();
  const auto& names = options.mesh_dim_names;
  if (sizes.size() != names.size())
    throw invalid_argument("mesh_dim_names must have same length as mesh_sizes in unflatten!");
  const auto number = groups::number_of_dimension(it, dim);
  const auto axes = it.dimensions[number].axis.split(sizes);
  const auto overrides =
      groups::overrides_by_dimension(options.backend_override, names, axes.size());
  auto dimensions = it.dimensions;
  dimensions.erase(dimensions.begin() + static_cast<std::ptrdiff_t>(number));
  for (std::size_t i = 0; i < axes.size(); ++i)
    dimensions.insert(dimensions.begin() + static_cast<std::ptrdiff_t>(number + i),
                      {axes[i], names[i], {}});
  check_names(dimensions);
  for (std::size_t i = 0; i < axes.size(); ++i)
    dimensions[number + i].group = groups::make_line(*it.root, axes[i], names[i], overrides[i]);
  return mesh_with(it, std::move(dimensions));
}

device_mesh device_mesh::concatenate(const std::vector<device_mesh>& slices) {
  if (slices.empty()) throw invalid_argument("concatenate needs at least one mesh");
  const auto& first = slices[0].known();
  std::vector<mesh_dimension> dimensions;
  for (const auto& one : slices) {
    if (one.known().root != first.root)
      throw invalid_argument(
          "Cannot concatenate DeviceMeshes derived from different device meshes");
    const auto& more = one.known().dimensions;
    dimensions.insert(dimensions.end(), more.begin(), more.end());
  }
  check_apart(dimensions, first.root->ranks.size(), "Cannot concatenate overlapping meshes");
  return mesh_with(first, std::move(dimensions));
}

}  // namespace troupe
