#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/cluster/device_directory.hpp"
#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/membership/job_rules.hpp"
#include "troupe/actors/membership/membership_actor.hpp"
#include "troupe/actors/messaging/outbox.hpp"
#include "troupe/actors/node/member_event.hpp"
#include "troupe/transport/rendezvous/join_service.hpp"

namespace troupe {

class message_router;
class node_lifecycle;
class remote_actors;
class termination_detection;

namespace detail {
class protocol_table;
}

/// A node's part in the membership of the job: runs it, and does what it decides. Members are
/// added, fenced (their messages are dropped, and nobody waits for them) and evicted (what they
/// held here is released). Admits joiners where it is asked to. Thread-safe.
class member_control final : private membership_actions, private transport::join_handler {
public:
  /// The parts of the node that a change of members concerns.
  struct parts {
    peer_table& peers;
    node_lifecycle& life;
    engine& driver;
    std::shared_ptr<remote_actors> actors;
    message_router& router;
    termination_detection& termination;
    detail::protocol_table& protocols;
  };

  member_control(const node_identity& self, const membership_view& start,
                 const membership_options& options, const detail::job_rules& rules,
                 const parts& node);
  ~member_control();

  /// Adds a member to `peers`, as `self` sees it.
  static void add_peer(peer_table& peers, flow_control& flow, const node_identity& self,
                       const detail::device_owner& own_devices, const member& who);

  /// Connects to the others at the `start`, and decides from now on. Throws transport_error, when a
  /// founder cannot be reached; members that a joiner cannot reach are in the result.
  using unreachable = std::vector<std::pair<transport::rank_t, std::string>>;
  unreachable connect(transport::transport& net, const membership_view& start);
  void open(caf::actor_system& system) { membership_.open(system); }

  /// Lets joiners in that ask the job's store; on rank 0 of a job that admits some.
  void serve_joins(std::shared_ptr<transport::store> keys, const std::string& job);

  /// A connection is lost. On the leading thread.
  void peer_lost(transport::rank_t rank, const transport::peer_loss& why);

  /// A message of the membership channel. Throws decode_error.
  void deliver(opened_envelope& message, transport::rank_t from);

  /// Lets a joiner in; on the leader's node.
  void admit(join_request&& request, join_callback&& then);
  transport::rank_t leader() const noexcept { return leader_; }

  void watch(member_watcher watcher);

  clock::time_point run_timer(clock::time_point now) { return membership_.run_timer(now); }

  /// Leaves the running job; the others go on. Throws what the membership says against it, or
  /// rpc_timeout. False: the limit passed without an answer.
  bool leave(clock::time_point deadline);

  /// The program waits for the job's end from now on: calls that peers owe are promised to it.
  void wait_for_the_end() noexcept { waits_for_the_end_ = true; }

  /// Admits no more joiners.
  void stop_joins() { joins_.reset(); }
  /// Decides nothing any more.
  void close() { membership_.close(); }
  /// When no thread of the node is left.
  void abandon() { membership_.abandon(); }

private:
  // membership_actions
  void send_membership_message(transport::rank_t to,
                               const membership_message& message) noexcept override;
  void fence(const member& who, const fault& why) noexcept override;
  void connect(const member& who) override;
  void apply(const std::vector<membership_change>& changes,
             const membership_view& view) noexcept override;
  void job_ended(const fault& why) noexcept override;

  // join_handler
  std::uint32_t reserve_rank(std::optional<std::uint32_t> wanted) override;
  void let_in(std::uint32_t rank, const std::string& name, std::vector<std::byte>&& address,
              std::function<void(transport::join_reply&&)> then) override;

  void fence(peer& whom, const std::string& cause);
  void evict(peer& whom);
  void notify_watchers(const std::vector<membership_change>& changes, std::uint32_t epoch);
  std::string problem_of(const join_request& request) const;
  const std::string& own_name() const;

  const node_identity identity_;
  const detail::device_owner own_devices_;
  const detail::job_rules rules_;
  const parts node_;
  membership_actor membership_;
  transport::transport* net_ = nullptr;
  std::unique_ptr<transport::join_service> joins_;
  transport::rank_t next_rank_ = 0;  // for a joiner; the join service's

  std::atomic<transport::rank_t> leader_;
  std::atomic<bool> parting_{false};            // this node has left the job
  std::atomic<bool> waits_for_the_end_{false};  // the program, in a graceful shutdown

  std::mutex watchers_mutex_;
  std::vector<member_watcher> watchers_;
};

}  // namespace troupe
