#include <utility>

#include "troupe/actors/groups/mesh/device_mesh.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe {

namespace {

thread_local const mesh_scope* innermost_mesh = nullptr;

}  // namespace

mesh_scope::mesh_scope(device_mesh mesh)
    : mesh_(std::move(mesh)), before_(std::exchange(innermost_mesh, this)) {}

mesh_scope::~mesh_scope() { innermost_mesh = before_; }

device_mesh current_device_mesh() {
  if (!innermost_mesh) throw invalid_argument("No device mesh is currently active!");
  return innermost_mesh->mesh_;
}

}  // namespace troupe
