#pragma once

#include "troupe/actors/remote/remote_node.hpp"
#include "troupe/actors/rpc/rpc_agent.hpp"

namespace troupe {

/// What calls need of the node that they belong to.
class rpc_node : public remote_node {
public:
  virtual rpc_agent& agent() noexcept = 0;
};

/// The agent of the node whose handler or function the calling thread runs; nullptr: of none.
inline rpc_agent* current_agent() noexcept {
  auto* const node = static_cast<rpc_node*>(current_node_context());
  return node ? &node->agent() : nullptr;
}

}  // namespace troupe
