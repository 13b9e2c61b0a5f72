#include "actors/node.hpp"

namespace troupe {

node init_rpc(const rpc_options& options) { return node(node_core::join(options)); }

node this_node() {
  auto* core = current_node();
  if (!core) throw not_initialized("this thread runs no handler of a node");
  return node(core->shared_from_this());
}

std::vector<node> local_nodes(const std::vector<std::string>& names, const rpc_options& options) {
  std::vector<node> nodes;
  for (auto& core : node_core::join_loopback(names, options)) nodes.emplace_back(std::move(core));
  return nodes;
}

}  // namespace troupe
