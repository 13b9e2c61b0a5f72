#include "troupe/actors/node/node.hpp"

#include "troupe/actors/profiling/event_collector.hpp"

namespace troupe {

// Every program with nodes runs operators for others, and says what time it is.
[[maybe_unused]] static const bool runs_operators = detail::serves_operators();
[[maybe_unused]] static const bool tells_the_time = callable<&detail::profile_time>::registered;

node init_rpc(const rpc_options& options) { return node(node_core::join(options)); }

node this_node() {
  auto* core = current_node();
  if (!core)
    throw not_initialized(
        "this_node() is for handlers, for functions that nodes call and for their coroutines, and "
        "this thread runs none of them: use the node that init_rpc or local_nodes has returned. "
        "Copies of it are cheap; a thread of your own takes one along");
  // Handlers run on the node's threads, which end before it: they must not hold it.
  return node(std::shared_ptr<node_core>(std::shared_ptr<void>(), core));
}

std::vector<node> local_nodes(const std::vector<std::string>& names, const rpc_options& options) {
  std::vector<node> nodes;
  for (auto& core : node_core::join_loopback(names, options)) nodes.emplace_back(std::move(core));
  return nodes;
}

}  // namespace troupe
