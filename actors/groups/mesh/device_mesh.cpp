#include "troupe/actors/groups/mesh/device_mesh.hpp"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/mesh/mesh_dimensions.hpp"
#include "troupe/actors/groups/mesh/mesh_groups.hpp"
#include "troupe/actors/groups/object_collectives.hpp"
#include "troupe/actors/groups/process_group/init_process_group.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe {

namespace {

using groups::mesh_axis;
using groups::mesh_dimension;
using groups::mesh_root;

// The ranks of a tensor. Throws invalid_argument.
std::vector<std::uint32_t> ranks_of(const at::Tensor& mesh) {
  if (!mesh.defined() || !mesh.device().is_cpu() || !c10::isIntegralType(mesh.scalar_type(), false))
    throw invalid_argument("`mesh` must be a CPU tensor of integers: the ranks");
  if (mesh.dim() == 0) throw invalid_argument("`mesh` has no dimension");
  const auto flat = mesh.to(at::kLong).contiguous();
  std::vector<std::uint32_t> out;
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const auto rank = flat.const_data_ptr<std::int64_t>()[i];
    if (rank < 0 || rank > std::numeric_limits<std::int32_t>::max())
      throw invalid_argument(fmt::format("`mesh` has {}, which is no rank", rank));
    out.push_back(static_cast<std::uint32_t>(rank));
  }
  return out;
}

std::optional<std::int64_t> place_of(std::uint32_t rank, const std::vector<std::uint32_t>& in) {
  const auto at = std::find(in.begin(), in.end(), rank);
  if (at == in.end()) return std::nullopt;
  return at - in.begin();
}

void check_mesh_size(std::int64_t ranks, const process_group& of) {
  const auto world = static_cast<std::int64_t>(of.ranks().size());
  if (ranks > world)
    throw invalid_argument(fmt::format(
        "Mesh should not be bigger than default world size {}, but found {} ranks!", world, ranks));
}

// `of` has one member on each node.
void check_mesh_ranks(const std::vector<std::uint32_t>& mesh, const process_group& of) {
  const auto all = of.ranks();
  const std::set world(all.begin(), all.end());
  if (world.size() != all.size())
    throw invalid_argument(
        fmt::format("a mesh is of nodes, and '{}' has several members on a node", of.name()));
  check_mesh_size(static_cast<std::int64_t>(mesh.size()), of);
  std::set<std::uint32_t> seen;
  for (const auto rank : mesh) {
    if (!world.contains(rank))
      throw invalid_argument(
          fmt::format("rank {} of the mesh is not in the group '{}'", rank, of.name()));
    if (!seen.insert(rank).second)
      throw invalid_argument(fmt::format("rank {} is twice in the mesh", rank));
  }
}

std::uint32_t my_rank(const process_group& group) {
  if (!group.is_member())
    throw invalid_argument(fmt::format(
        "a mesh is made by members of its group, and this node is not in '{}'", group.name()));
  return group.global_rank(group.rank());
}

// What all ranks have to agree on.
std::string description_of(const mesh_root& root, const std::vector<std::int64_t>& shape,
                           const mesh_options& options,
                           const std::vector<const group_options*>& overrides) {
  std::string out = fmt::format(
      "shape ({}), device '{}', names ({}), ranks ({})", fmt::join(shape, ", "), root.device_type,
      fmt::join(options.mesh_dim_names, ", "), fmt::join(root.ranks, ", "));
  for (std::size_t i = 0; i < overrides.size(); ++i)
    if (overrides[i])
      out += fmt::format(", override {}: backend '{}' {} ms '{}' {}", i, overrides[i]->backend,
                         overrides[i]->timeout.count(), overrides[i]->name,
                         overrides[i]->backend_options);
  return out;
}

void agree(const process_group& world, const std::string& mine) {
  const auto all = all_gather_object(world, mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      throw collective_mismatch(
          fmt::format("the ranks of '{}' do not agree on a device mesh: rank 0 has asked for {}, "
                      "rank {} for {}",
                      world.name(), all[0], rank, all[rank]));
}

std::string name_at(const std::vector<std::string>& names, std::size_t dimension) {
  return names.empty() ? std::string() : names[dimension];
}

// In texts and in descriptions of groups.
std::string label(const std::string& name, std::size_t dimension) {
  return name.empty() ? std::to_string(dimension) : name;
}

std::shared_ptr<const groups::mesh_state> whole(std::shared_ptr<mesh_root> root) {
  auto dimensions = root->dimensions;
  return std::make_shared<const groups::mesh_state>(
      groups::mesh_state{std::move(root), std::move(dimensions)});
}

std::int64_t place_in(const mesh_root& root) {
  if (!root.place)
    throw invalid_argument(fmt::format("rank {} is not in the mesh, and has no group of it",
                                       root.world.global_rank(root.world.rank())));
  return *root.place;
}

process_group group_of(const mesh_root& root, const mesh_dimension& dimension) {
  place_in(root);
  return dimension.group;
}

}  // namespace

const groups::mesh_state& device_mesh::known() const {
  if (!state_) throw invalid_argument("this handle has no device mesh");
  return *state_;
}

device_mesh::device_mesh(const process_group& of, const std::string& device_type,
                         const at::Tensor& mesh, const mesh_options& options) {
  const auto shape = mesh.defined() ? mesh.sizes().vec() : std::vector<std::int64_t>();
  auto ranks = ranks_of(mesh);
  const auto axes = mesh_axis::row_major(shape);
  groups::check_mesh_names(options.mesh_dim_names, axes.size());
  groups::check_mesh_device(device_type);
  check_mesh_ranks(ranks, of);
  const auto overrides =
      groups::overrides_by_dimension(options.backend_override, options.mesh_dim_names, axes.size());
  const auto place = place_of(my_rank(of), ranks);
  const auto root = std::make_shared<mesh_root>(of, device_type, std::move(ranks), place);
  agree(of, description_of(*root, shape, options, overrides));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    auto name = name_at(options.mesh_dim_names, i);
    auto line = groups::make_line(*root, axes[i], label(name, i), overrides[i]);
    root->dimensions.push_back({axes[i], std::move(name), std::move(line)});
  }
  state_ = whole(root);
}

device_mesh device_mesh::from_group(const process_group& group, const std::string& device_type,
                                    const mesh_options& options) {
  const auto all = group.ranks();
  auto mesh = at::empty({static_cast<std::int64_t>(all.size())}, at::kLong);
  std::copy(all.begin(), all.end(), mesh.mutable_data_ptr<std::int64_t>());
  return from_group(std::vector{group}, device_type, mesh, options);
}

device_mesh device_mesh::from_group(const std::vector<process_group>& groups,
                                    const std::string& device_type, const at::Tensor& mesh,
                                    const mesh_options& options) {
  if (groups.empty()) throw invalid_argument("Expects at least one ProcessGroup to be passed");
  auto ranks = ranks_of(mesh);
  if (static_cast<std::size_t>(mesh.dim()) != groups.size())
    throw invalid_argument(fmt::format(
        "Expects mesh with ndim equal to number of ProcessGroups but got mesh of {} dimensions and "
        "{} ProcessGroups",
        mesh.dim(), groups.size()));
  if (!options.backend_override.empty())
    throw invalid_argument("a mesh of groups that there are cannot override their backends");
  const auto axes = mesh_axis::row_major(mesh.sizes().vec());
  troupe::groups::check_mesh_names(options.mesh_dim_names, axes.size());
  troupe::groups::check_mesh_device(device_type);
  const auto me = my_rank(groups[0]);
  const auto world = groups.size() == 1 ? groups[0] : troupe::groups::world_of(groups[0]);
  check_mesh_ranks(ranks, world);
  const auto place = place_of(me, ranks);
  if (!place) throw invalid_argument("this rank is in the groups, and not in the mesh");
  const auto root = std::make_shared<mesh_root>(world, device_type, std::move(ranks), place);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    troupe::groups::check_line(*root, axes[i], groups[i]);
    root->dimensions.push_back({axes[i], name_at(options.mesh_dim_names, i), groups[i]});
  }
  return device_mesh(whole(root));
}

int device_mesh::ndim() const { return static_cast<int>(known().dimensions.size()); }

std::vector<std::int64_t> device_mesh::shape() const {
  std::vector<std::int64_t> out;
  out.reserve(known().dimensions.size());
  for (const auto& one : known().dimensions) out.push_back(one.axis.size());
  return out;
}

std::int64_t device_mesh::size() const {
  std::int64_t out = 1;
  for (const auto one : shape()) out *= one;
  return out;
}

std::int64_t device_mesh::size(const mesh_dim& dim) const {
  return groups::find_dimension(known(), dim).axis.size();
}

const std::string& device_mesh::device_type() const { return known().root->device_type; }
std::vector<std::string> device_mesh::mesh_dim_names() const { return groups::names_of(known()); }

at::Tensor device_mesh::mesh() const {
  const auto& it = known();
  const auto& root = *it.root;
  const auto axes = groups::axes_of(it.dimensions);
  std::int64_t first = 0;
  if (size() != static_cast<std::int64_t>(root.ranks.size())) {
    if (!root.place)
      throw invalid_argument(
          "In order to get the mesh Tensor of a DeviceMesh it needs to either have all its "
          "original dimensions (e.g., no slicing) or it needs to contain the local rank");
    first = *root.place;
    for (const auto& one : axes) first -= one.offset(one.index_of(*root.place));
  }
  auto out = at::empty(shape(), at::kLong);
  auto* to = out.mutable_data_ptr<std::int64_t>();
  for (const auto offset : groups::mesh_offsets(axes))
    *to++ = root.ranks[static_cast<std::size_t>(first + offset)];
  return out;
}

int device_mesh::rank() const { return static_cast<int>(my_rank(known().root->world)); }

std::optional<std::vector<std::int64_t>> device_mesh::coordinate() const {
  const auto& it = known();
  if (!it.root->place) return std::nullopt;
  std::vector<std::int64_t> out;
  for (const auto& one : it.dimensions) out.push_back(one.axis.index_of(*it.root->place));
  return out;
}

int device_mesh::local_rank() const {
  const auto& one = groups::only_dimension(known());
  return static_cast<int>(one.axis.index_of(place_in(*known().root)));
}

int device_mesh::local_rank(const mesh_dim& dim) const {
  const auto one = groups::find_dimension(known(), dim);
  return static_cast<int>(one.axis.index_of(place_in(*known().root)));
}

process_group device_mesh::group() const {
  return group_of(*known().root, groups::only_dimension(known()));
}

process_group device_mesh::group(const mesh_dim& dim) const {
  return group_of(*known().root, groups::find_dimension(known(), dim));
}

std::vector<process_group> device_mesh::all_groups() const {
  std::vector<process_group> out;
  for (const auto& one : known().dimensions) out.push_back(group_of(*known().root, one));
  return out;
}

device_mesh device_mesh::root() const { return device_mesh(whole(known().root)); }
const process_group& device_mesh::world() const { return known().root->world; }

std::string device_mesh::to_string() const {
  const auto& it = known();
  std::vector<std::string> dimensions;
  dimensions.reserve(it.dimensions.size());
  for (const auto& one : it.dimensions)
    dimensions.push_back(one.name.empty() ? fmt::to_string(one.axis.size())
                                          : fmt::format("{}={}", one.name, one.axis.size()));
  return fmt::format("device_mesh(({}), device '{}')", fmt::join(dimensions, ", "),
                     it.root->device_type);
}

bool device_mesh::is_same(const device_mesh& other) const noexcept {
  if (!state_ || !other.state_) return state_ == other.state_;
  const auto &a = *state_, &b = *other.state_;
  return a.root->device_type == b.root->device_type && a.root->ranks == b.root->ranks &&
         std::equal(a.dimensions.begin(), a.dimensions.end(), b.dimensions.begin(),
                    b.dimensions.end(), [](const auto& one, const auto& another) {
                      return one.axis == another.axis && one.name == another.name;
                    });
}

std::size_t device_mesh::hash() const noexcept {
  std::size_t out = 0;
  const auto add = [&](std::size_t one) { out = out * 1'000'003 + one; };
  if (!state_) return out;
  for (const auto rank : state_->root->ranks) add(rank);
  for (const auto& one : state_->dimensions) {
    add(static_cast<std::size_t>(one.axis.size()));
    add(static_cast<std::size_t>(one.axis.offset(one.axis.size() - 1)));
    add(std::hash<std::string>()(one.name));
  }
  return out;
}

device_mesh init_device_mesh(const process_group& of, const std::string& device_type,
                             const std::vector<std::int64_t>& mesh_shape,
                             const mesh_options& options) {
  groups::check_mesh_names(options.mesh_dim_names, mesh_shape.size());
  std::int64_t size = 1;
  for (const auto& one : mesh_axis::row_major(mesh_shape)) size *= one.size();
  check_mesh_size(size, of);
  auto mesh = at::empty(mesh_shape, at::kLong);
  for (std::int64_t i = 0; i < size; ++i)
    mesh.mutable_data_ptr<std::int64_t>()[i] = of.global_rank(static_cast<int>(i));
  return device_mesh(of, device_type, mesh, options);
}

device_mesh init_device_mesh(const std::string& device_type,
                             const std::vector<std::int64_t>& mesh_shape,
                             const mesh_options& options) {
  // What can be wrong here, before anybody waits.
  mesh_axis::row_major(mesh_shape);
  groups::check_mesh_names(options.mesh_dim_names, mesh_shape.size());
  groups::check_mesh_device(device_type);
  return init_device_mesh(init_process_group(), device_type, mesh_shape, options);
}

}  // namespace troupe
