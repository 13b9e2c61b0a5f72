#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/groups/mesh/mesh_options.hpp"
#include "troupe/actors/groups/process_group/process_group.hpp"

namespace troupe {

namespace groups {
struct mesh_state;
}

/// Ranks of a job in an array of any number of dimensions, and a process group for each line of
/// ranks along each dimension: for two dimensions, rows and columns. PyTorch's DeviceMesh.
///
/// All ranks of the group that a mesh is made of make it, and its slices with new groups
/// (`flatten`, `unflatten`), in the same order; whatever they disagree on is a collective_mismatch
/// on all of them when the mesh is made. What a rank finds wrong by itself it throws before it
/// meets the others. Copies are the same mesh; its groups live as long as they, or their slices.
/// Ranks are global, those of the job. Thread-safe.
class device_mesh {
public:
  /// No mesh; everything but comparing, hashing and assigning throws invalid_argument.
  device_mesh() = default;

  /// Of these ranks, an integer tensor on the CPU of as many dimensions as the mesh, which are some
  /// or all of the group's, none twice. `device_type` is "cpu", "cuda": what the tensors of its
  /// collectives are on. Ranks of the group that are not in it have a mesh without coordinate and
  /// groups. Throws invalid_argument, collective_mismatch, and what `new_group` throws.
  device_mesh(const process_group& of, const std::string& device_type, const at::Tensor& mesh,
              const mesh_options& options = {});

  /// A mesh of one dimension of a group that there is, in its order; or of several groups of which
  /// this node is a member, one for each dimension of `mesh`: its line of ranks in that dimension.
  /// Talks to nobody. Throws invalid_argument.
  static device_mesh from_group(const process_group& group, const std::string& device_type,
                                const mesh_options& options = {});
  static device_mesh from_group(const std::vector<process_group>& groups,
                                const std::string& device_type, const at::Tensor& mesh,
                                const mesh_options& options);

  int ndim() const;
  std::vector<std::int64_t> shape() const;
  /// The ranks in it, or along one dimension.
  std::int64_t size() const;
  std::int64_t size(const mesh_dim& dim) const;
  const std::string& device_type() const;
  /// Empty if there are none.
  std::vector<std::string> mesh_dim_names() const;
  /// The ranks, int64 on the CPU, in its shape; of a slice, those of this rank's. Throws
  /// invalid_argument for a slice of a mesh that this rank is not in.
  at::Tensor mesh() const;

  /// This node's rank in the job.
  int rank() const;
  /// Its index in each dimension; nothing if it is not in the mesh.
  std::optional<std::vector<std::int64_t>> coordinate() const;
  /// Its rank in the group of a dimension, which need not be named if there is only one.
  int local_rank() const;
  int local_rank(const mesh_dim& dim) const;

  /// The group of this rank's line along a dimension, which may be a flattened one of the root
  /// mesh. It need not be named if there is only one. Throws invalid_argument: no such dimension,
  /// or this rank is not in the mesh.
  process_group group() const;
  process_group group(const mesh_dim& dim) const;
  std::vector<process_group> all_groups() const;

  /// The slice of these dimensions, in this order, that has this rank; of the root mesh also
  /// flattened ones. It has the groups that there are.
  device_mesh operator[](const std::string& mesh_dim_name) const;
  device_mesh operator[](std::initializer_list<std::string> mesh_dim_names) const;
  device_mesh operator[](const std::vector<std::string>& mesh_dim_names) const;

  /// One dimension with the ranks of all of this mesh's, in its order, and a group of them. Named
  /// `name`, or as "dp_tp". The root mesh knows it by that name from now on, and the same call
  /// again makes no other. All ranks of the mesh call it.
  device_mesh flatten(const std::string& name = {}, const group_options& options = {}) const;
  /// Several dimensions in place of one, with groups of their own. The keys of `backend_override`
  /// are the new dimensions'. All ranks of the mesh call it.
  device_mesh unflatten(const mesh_dim& dim, const std::vector<std::int64_t>& sizes,
                        const mesh_options& options) const;
  /// One mesh of the dimensions of several slices of one mesh, which have none in common.
  static device_mesh concatenate(const std::vector<device_mesh>& slices);

  /// The mesh of which this is a slice, or itself.
  device_mesh root() const;
  /// The group it was made of.
  const process_group& world() const;

  std::string to_string() const;  ///< "device_mesh((dp=2, tp=4), device 'cpu')"

  /// The same ranks in the same order, with the same device and names. Its groups do not count.
  friend bool operator==(const device_mesh& a, const device_mesh& b) { return a.is_same(b); }
  std::size_t hash() const noexcept;

  /// For Troupe's own use.
  explicit device_mesh(std::shared_ptr<const groups::mesh_state> of) : state_(std::move(of)) {}

private:
  const groups::mesh_state& known() const;
  bool is_same(const device_mesh& other) const noexcept;

  std::shared_ptr<const groups::mesh_state> state_;
};

/// A mesh of the first ranks of the group, as many as the product of the sizes, row-major. Throws
/// what the constructor throws.
device_mesh init_device_mesh(const process_group& of, const std::string& device_type,
                             const std::vector<std::int64_t>& mesh_shape,
                             const mesh_options& options = {});
/// Of the first ranks of the job, which this joins by `init_process_group`. `mesh.world()` is their
/// group, which destroy_process_group ends.
device_mesh init_device_mesh(const std::string& device_type,
                             const std::vector<std::int64_t>& mesh_shape,
                             const mesh_options& options = {});

/// Makes a mesh the current one of this thread, until it is destroyed, on the same thread; then it
/// is again the one before.
class mesh_scope {
public:
  explicit mesh_scope(device_mesh mesh);
  ~mesh_scope();
  mesh_scope(const mesh_scope&) = delete;
  mesh_scope& operator=(const mesh_scope&) = delete;

private:
  device_mesh mesh_;
  const mesh_scope* before_;
  friend device_mesh current_device_mesh();
};

/// Throws invalid_argument: "No device mesh is currently active!".
device_mesh current_device_mesh();

}  // namespace troupe

template <>
struct std::hash<troupe::device_mesh> {
  std::size_t operator()(const troupe::device_mesh& mesh) const noexcept { return mesh.hash(); }
};
