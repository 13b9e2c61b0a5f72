#include "troupe/actors/groups/mesh/mesh_dimensions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "troupe/messages/base/error.hpp"

namespace troupe::groups {

namespace {

bool is_root(const mesh_state& it) {
  return axes_of(it.dimensions) == axes_of(it.root->dimensions);
}

invalid_argument no_dimension(const std::string& name, const std::vector<std::string>& known) {
  return invalid_argument(fmt::format(
      "Mesh dimension '{}' does not exist. Available mesh dimensions are: mesh_dim_names=({})",
      name, fmt::join(known, ", ")));
}

}  // namespace

std::vector<mesh_axis> axes_of(const std::vector<mesh_dimension>& dimensions) {
  std::vector<mesh_axis> out;
  out.reserve(dimensions.size());
  for (const auto& one : dimensions) out.push_back(one.axis);
  return out;
}

std::vector<std::string> names_of(const mesh_state& it) {
  std::vector<std::string> out;
  for (const auto& one : it.dimensions)
    if (!one.name.empty()) out.push_back(one.name);
  return out;
}

const mesh_dimension& only_dimension(const mesh_state& it) {
  if (it.dimensions.size() != 1)
    throw invalid_argument(fmt::format(
        "Found the DeviceMesh have {} dimensions. `mesh_dim` needs to be specified when "
        "device_mesh.ndim > 1.",
        it.dimensions.size()));
  return it.dimensions[0];
}

std::size_t number_of_dimension(const mesh_state& it, const mesh_dim& dim) {
  if (const auto* name = std::get_if<std::string>(&dim)) {
    for (std::size_t i = 0; i < it.dimensions.size(); ++i)
      if (it.dimensions[i].name == *name) return i;
    throw no_dimension(*name, names_of(it));
  }
  const auto number = std::get<int>(dim);
  if (number < 0 || static_cast<std::size_t>(number) >= it.dimensions.size())
    throw invalid_argument(
        fmt::format("a mesh of {} dimensions has no dimension {}", it.dimensions.size(), number));
  return static_cast<std::size_t>(number);
}

// With the root mesh's flattened ones.
mesh_dimension named_dimension(const mesh_state& it, const std::string& name) {
  auto known = names_of(it);
  if (known.empty()) throw invalid_argument("No `mesh_dim_names` found.");
  for (const auto& one : it.dimensions)
    if (one.name == name) return one;
  if (is_root(it)) {
    const std::lock_guard lock(it.root->mutex);
    const auto found = it.root->flattened.find(name);
    if (found != it.root->flattened.end()) return found->second;
    for (const auto& [other, dimension] : it.root->flattened) known.push_back(other);
  }
  throw no_dimension(name, known);
}

mesh_dimension find_dimension(const mesh_state& it, const mesh_dim& dim) {
  if (const auto* name = std::get_if<std::string>(&dim)) return named_dimension(it, *name);
  return it.dimensions[number_of_dimension(it, dim)];
}

}  // namespace troupe::groups
