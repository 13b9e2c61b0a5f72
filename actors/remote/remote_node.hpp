#pragma once

#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/actors/scheduler/node_context.hpp"

namespace troupe {

class actor_spawner;
class remote_actors;

/// What actors need of the node that they live on.
class remote_node : public node_context {
public:
  virtual actor_spawner& spawner() noexcept = 0;
  virtual remote_actors& actors() noexcept = 0;
};

/// The node whose handler the calling thread runs; nullptr: none. Every node_context is a
/// remote_node: both are a node_core.
inline remote_node* current_remote_node() noexcept {
  return static_cast<remote_node*>(current_node_context());
}

}  // namespace troupe
