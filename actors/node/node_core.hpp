#pragma once

#include <caf/actor_system.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/messaging/deferred_sink.hpp"
#include "troupe/actors/messaging/outbox.hpp"
#include "troupe/actors/messaging/request_table.hpp"
#include "troupe/actors/node/debug_info.hpp"
#include "troupe/actors/node/member_control.hpp"
#include "troupe/actors/node/message_router.hpp"
#include "troupe/actors/node/node_protocol.hpp"
#include "troupe/actors/node/options.hpp"
#include "troupe/actors/node/termination.hpp"
#include "troupe/actors/operators/permission.hpp"
#include "troupe/actors/remote/actor_spawner.hpp"
#include "troupe/actors/rpc/rpc_node.hpp"

namespace troupe {

namespace deadlock {
class search;
}

/// The parts of a node, wired together; it owns them in the order in which they use one another.
/// Program code holds a `node`; this is what is behind it.
class node_core final : public std::enable_shared_from_this<node_core>,
                        public rpc_node,
                        private dispatcher {
public:
  /// Makes the engine of a node.
  using engine_maker = std::function<std::shared_ptr<engine>(dispatcher&)>;

  /// A node that has yet to be opened. It is one of the members at the `start`, whose addresses are
  /// their descriptors.
  static std::shared_ptr<node_core> make(const node_identity& self, const membership_view& start,
                                         const rpc_options& options,
                                         const engine_maker& make_engine);
  ~node_core();

  /// It runs from now on, on `net`, which was made with `parts`; connects to the other members.
  /// Throws transport_error.
  void open(std::unique_ptr<transport::transport> net, std::unique_ptr<deferred_sink> parts,
            const membership_view& start);

  /// What the end of the node does last, for at most so long: the rendezvous' leave notice.
  void at_end(std::function<void(std::chrono::milliseconds)> leave) { leave_ = std::move(leave); }

  const worker_info& self() const noexcept override { return self_->info; }
  const std::shared_ptr<engine>& driver() const noexcept override { return engine_; }
  detail::wait_observer& waits() noexcept override;
  actor_spawner& spawner() noexcept override { return *spawner_; }
  remote_actors& actors() noexcept override { return *actors_; }
  rpc_agent& agent() noexcept override { return *agent_; }
  detail::rref_table& rrefs() noexcept { return *rrefs_; }
  deadlock::search& deadlocks() noexcept { return *deadlocks_; }
  member_control& members() noexcept { return *members_; }
  peer_table& peers() noexcept { return *peers_; }
  const detail::protocol_table& protocols() const noexcept { return *protocols_; }

  /// The members of the job, by rank.
  std::shared_ptr<const std::vector<worker_info>> workers() const {
    forked::check();
    return peers_->live();
  }

  /// Throws unknown_worker.
  peer& find(const destination& to) const { return agent_->find(to); }

  /// Throws not_initialized after the shutdown, and in a forked process.
  void check_open() const { life_.check_open(); }
  bool is_open() const noexcept { return life_.is_open(); }

  /// Stays until the shutdown; actor_spawner::spawn is for threads that may race with that.
  caf::actor_system& system();

  void shutdown(bool graceful, std::chrono::milliseconds limit);

  /// Leaves the running job, and ends; see node::leave.
  void leave(std::chrono::milliseconds limit);

  /// Ends it as if its process had been killed.
  void crash();

  std::uint32_t epoch() const noexcept { return router_->epoch(); }
  void watch_members(member_watcher watcher) { members_->watch(std::move(watcher)); }

  std::vector<transport::route> routes() const;
  std::vector<transport::tensor_way> ways_to(const peer& to) const;
  debug_info info() const;

private:
  struct pool;

  node_core(const node_identity& identity, const membership_view& start, const rpc_options& options,
            const engine_maker& make_engine);
  void add_channels();

  std::exception_ptr come_to_rest(std::chrono::milliseconds limit);
  void wait_for_leases(clock::time_point deadline) const;
  std::exception_ptr report_losses() const;
  std::exception_ptr find_leaks() const;
  void close(bool together);
  static void destroy(node_core* core) noexcept;

  // dispatcher
  void dispatch(transport::incoming_message&& message, engine_unit& unit) override {
    router_->dispatch(std::move(message), unit);
  }
  void peer_lost(transport::rank_t peer, const transport::peer_loss& why) override {
    members_->peer_lost(peer, why);
  }
  clock::time_point run_timers(clock::time_point now) override;
  caf::resumable::resume_result resume(caf::resumable& item, engine_unit& unit,
                                       std::size_t most) override;
  void run_between(function_ref<void()> body) override;
  void prepare_thread() noexcept override;

  const node_identity identity_;
  const detail::operator_permission operators_;
  const leaked_rref on_leaked_rref_;
  const forked::resident lives_here_;

  node_lifecycle life_;
  const std::shared_ptr<peer_table> peers_ = std::make_shared<peer_table>();
  const std::shared_ptr<pool> pool_;
  std::shared_ptr<engine> engine_;
  const std::shared_ptr<request_table> requests_ = std::make_shared<request_table>();
  std::shared_ptr<remote_actors> actors_;
  std::unique_ptr<deadlock::search> deadlocks_;
  std::unique_ptr<rpc_agent> agent_;
  detail::rref_table* rrefs_ =
      nullptr;  // owned by actors_, since references may outlive their node
  std::unique_ptr<actor_spawner> spawner_;
  std::unique_ptr<termination_detection> termination_;
  std::unique_ptr<detail::protocol_table> protocols_;
  std::unique_ptr<message_router> router_;
  std::unique_ptr<member_control> members_;
  std::unique_ptr<deferred_sink> parts_;  // between the transport and the rest
  std::unique_ptr<transport::transport> net_;
  std::function<void(std::chrono::milliseconds)> leave_;
  const peer* self_ = nullptr;

  std::atomic<bool> closed_{true};
  std::mutex shutdown_mutex_;
};

/// The node whose handler the calling thread runs; nullptr: none.
node_core* current_node() noexcept;

}  // namespace troupe
