#include "troupe/actors/node/node.hpp"

#include "troupe/actors/node/bootstrap.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/profiling/event_collector.hpp"
#include "troupe/actors/rref/rref_table.hpp"
#include "troupe/actors/rref/tensor_reads.hpp"

namespace troupe {

// Every program with nodes runs operators for others, lets them read its tensors, and says what
// time it is.
[[maybe_unused]] static const bool runs_operators = detail::serves_operators();
[[maybe_unused]] static const bool gives_tensors = detail::serves_tensor_reads();
[[maybe_unused]] static const bool tells_the_time = callable<&detail::profile_time>::registered;

const worker_info& node::self() const { return core().self(); }

const worker_info& node::get_worker_info() const { return agent().self(); }

const worker_info& node::get_worker_info(const destination& who) const {
  return agent().find(who).info;
}

rpc_agent& node::agent() const {
  core().check_open();
  return core_->agent();
}

actor_spawner& node::spawner() const {
  core().check_open();
  return core_->spawner();
}

worker_list node::workers() const { return {core().workers(), rank()}; }

std::vector<rref_leak> node::rrefs() const { return core().rrefs().list(); }

void node::shutdown(bool graceful, std::chrono::milliseconds limit) const {
  core().shutdown(graceful, limit);
}

void node::leave(std::chrono::milliseconds limit) const { core().leave(limit); }

void node::barrier(const std::vector<std::string>& names,
                   const std::optional<timeout>& limit) const {
  detail::gather_among(agent(), "_barrier", names, true, limit);
}

bool node::in_job() const { return core().is_open(); }

std::uint32_t node::epoch() const { return core().epoch(); }

void node::watch_members(const member_watcher& watcher) const { core().watch_members(watcher); }

void node::set_rpc_timeout(std::chrono::milliseconds limit) const {
  core().agent().set_rpc_timeout(limit);
}

std::chrono::milliseconds node::rpc_timeout() const { return core().agent().rpc_timeout(); }

std::vector<transport::route> node::routes() const { return core().routes(); }

std::vector<transport::tensor_way> node::transport_plan(const destination& to) const {
  return core().ways_to(agent().find(to));
}

troupe::debug_info node::debug_info() const { return core().info(); }

caf::actor_system& node::system() const { return core().system(); }

namespace detail {

node node_of(const std::shared_ptr<rpc_agent>& agent) {
  return node(std::shared_ptr<node_core>(agent, static_cast<node_core*>(&agent->node())));
}

}  // namespace detail

node init_rpc(const rpc_options& options) { return node(join_job(options)); }

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
  for (auto& core : join_loopback(names, options)) nodes.emplace_back(std::move(core));
  return nodes;
}

}  // namespace troupe
