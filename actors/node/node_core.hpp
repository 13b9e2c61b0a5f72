#pragma once

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/remote/actor_system_host.hpp"
#include "troupe/actors/scheduler/engine.hpp"
#include "troupe/actors/rpc/function_table.hpp"
#include "troupe/actors/membership/job_rules.hpp"
#include "troupe/actors/messaging/deferred_sink.hpp"
#include "troupe/actors/messaging/outbox.hpp"
#include "troupe/actors/node/member_event.hpp"
#include "troupe/actors/membership/membership_actor.hpp"
#include "troupe/actors/operators/permission.hpp"
#include "troupe/actors/node/options.hpp"
#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/node/termination.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/future/timer_futures.hpp"
#include "troupe/actors/messaging/call_options.hpp"
#include "troupe/actors/cluster/worker_info.hpp"
#include "troupe/messages/memory/storage_pool.hpp"
#include "troupe/transport/rendezvous/join_service.hpp"

namespace troupe {

/// A node's numbers, for people and tests.
struct debug_info {
  unsigned threads = 0;
  unsigned idle_threads = 0;
  std::size_t calls_in_flight = 0;  ///< requests of this node that wait for an answer
  std::size_t calls_served = 0;     ///< calls to this node that it will answer later
  std::size_t actors_held = 0;      ///< actors here that other nodes have handles of
  std::size_t remote_handles = 0;   ///< handles here of other nodes' actors
  /// Values here that rrefs refer to; those of make_rref while another node has one, or once a call
  /// has used them.
  std::size_t owner_rrefs = 0;
  std::size_t user_rrefs = 0;         ///< rrefs here, whoever owns the value; copies count as one
  std::size_t rref_forks = 0;         ///< rrefs on their way to other nodes, not yet confirmed
  std::size_t autograd_contexts = 0;  ///< distributed ones, in which this node takes part
  std::size_t backward_passes = 0;    ///< in those, under way
  transport::counters traffic;
};

/// The parts of a node, wired together: rendezvous, transport, engine, actors. Program code holds a
/// `node`; this is what is behind it.
class node_core final : public std::enable_shared_from_this<node_core>,
                        private dispatcher,
                        private membership_actions,
                        private transport::door_client {
public:
  /// Blocks until the whole job is there, or has let this node in. Throws rendezvous_error,
  /// transport_error and the like.
  static std::shared_ptr<node_core> join(
      const rpc_options& options,
      const detail::device_directory& here = detail::device_directory::here());

  /// Makes the engine of a node.
  using engine_maker = std::function<std::shared_ptr<engine>(dispatcher&)>;

  /// A node that has yet to be opened. It is one of the members at the `start`, whose addresses are
  /// their cards.
  static std::shared_ptr<node_core> make(const node_identity& self, const membership_view& start,
                                         const rpc_options& options,
                                         const engine_maker& make_engine);

  /// It runs from now on, on `net`, which was made with `parts`; connects to the other members.
  /// Throws transport_error.
  void open(std::unique_ptr<transport::transport> net, std::unique_ptr<deferred_sink> parts,
            const membership_view& start);

  /// Nodes of this process on a network of its own, without a rendezvous: `names.size()` of them.
  static std::vector<std::shared_ptr<node_core>> join_loopback(
      const std::vector<std::string>& names, const rpc_options& options,
      const detail::device_directory& here = detail::device_directory::here());
  ~node_core();

  const worker_info& self() const noexcept { return self_->info; }

  /// The members of the job, by rank.
  std::shared_ptr<const std::vector<worker_info>> workers() const {
    forked::check();
    return peers_.live();
  }

  /// Throws unknown_worker.
  peer& find(const destination& to) const {
    forked::check();
    return peers_.find(to);
  }

  /// Throws not_initialized after the shutdown, and in a forked process.
  void check_open() const;
  bool is_open() const noexcept { return open_ && !forked::from_nodes(); }

  /// Sends a call of the function `hash` whose arguments `write` puts into the body. The answer
  /// goes to `sink`, also when sending fails at once. Returns the request's id; 0: it has failed,
  /// or has none, since `sink` is nobody.
  std::uint64_t call(peer& to, std::uint64_t hash, std::string_view name,
                     const std::shared_ptr<reply_sink>& sink, const call_options& how,
                     function_ref<void(encoder&, handle_scope&)> write);

  /// Stays until the shutdown; `spawn` is for those who may race with that.
  caf::actor_system& system();
  const std::shared_ptr<engine>& driver() const noexcept { return engine_; }
  remote_actors& actors() noexcept { return *remote_actors_; }

  /// Makes an actor: `make` gets the actor system, which stays until it returns. The actor ends at
  /// the shutdown, if it has not ended by then. Throws not_initialized.
  template <class Make>
  auto spawn(Make&& make) {
    gate::pass pass(uses_);
    check_open();  // it is when the gate is
    auto made = make(host_->system());
    adopt(caf::actor_cast<caf::strong_actor_ptr>(made));
    return made;
  }

  void shutdown(bool graceful, std::chrono::milliseconds limit);

  /// Leaves the running job, and ends; see node::leave.
  void leave(std::chrono::milliseconds limit);

  /// Ends it as if its process had been killed.
  void crash();

  /// Lets a newcomer in; on the leader's node.
  void admit(join_request&& request, join_reply&& then);
  transport::rank_t leader() const noexcept { return leader_; }

  std::uint32_t epoch() const noexcept { return applied_; }
  void watch_members(member_watcher watcher);

  /// Ready after so long; fails with not_initialized when this node ends before.
  future<void> sleep_for(std::chrono::nanoseconds time) {
    return sleepers_.add(engine_, time.count() > 0 ? deadline_after(time) : clock::now());
  }

  /// The same at `until`, for who may want to `forget` it before.
  future<void> wake_at(clock::time_point until) { return sleepers_.add(engine_, until); }
  void forget(const future<void>& one, clock::time_point until) { sleepers_.remove(one, until); }

  /// From the node's own source, which in a simulation depends on its seed.
  std::uint64_t random() noexcept;

  /// A call begins, or has ended, that is made again if it must be: the job does not end meanwhile.
  void begin_retries() noexcept { ++retries_; }
  void end_retries() noexcept { --retries_; }

  std::vector<transport::route> routes() const;
  debug_info info() const;
  void set_rpc_timeout(std::chrono::milliseconds limit);
  const detail::operator_permission& operators() const noexcept { return operators_; }
  std::chrono::milliseconds rpc_timeout() const noexcept {
    return std::chrono::milliseconds(rpc_timeout_ms_.load());
  }

private:
  struct pool;
  class waiting_call;

  node_core(const node_identity& identity, const membership_view& start, const rpc_options& options,
            const engine_maker& make_engine);

  static std::shared_ptr<node_core> found(const rpc_options& options,
                                          const detail::device_directory& here);
  static std::shared_ptr<node_core> join_running(const rpc_options& options,
                                                 const detail::device_directory& here);

  void add_peer(const member& who);
  std::string problem_of(const join_request& request) const;
  std::optional<fault> end_of_job() const {
    const std::lock_guard lock(end_mutex_);
    return ended_;
  }
  std::exception_ptr come_to_rest(std::chrono::milliseconds limit);
  std::exception_ptr report_losses() const;
  std::exception_ptr find_leaks() const;
  void close(bool together);
  static void destroy(node_core* core) noexcept;
  std::uint64_t send_call(peer& to, std::uint64_t hash, std::string_view name,
                          const std::shared_ptr<reply_sink>& sink, const call_options& how,
                          message_builder& text, const handle_scope& handles, detail::context_header& context);
  void take_apart(transport::incoming_message&& message, engine_unit& unit, bool may_run_inline);
  void turn_away(const opened_envelope& message, peer& from) noexcept;
  void execute(opened_envelope& message, peer& from, std::size_t size, clock::time_point deadline,
               const fault* refusal = nullptr) noexcept;

  // membership_actions
  void send_membership_message(transport::rank_t to, const membership_message& note) noexcept override;
  void fence(const member& who, const fault& why) noexcept override;
  void connect(const member& who) override;
  void apply(const std::vector<membership_change>& changes,
             const membership_view& view) noexcept override;
  void job_ended(const fault& why) noexcept override;

  // transport::door_client
  std::uint32_t reserve_rank(std::optional<std::uint32_t> wanted) override;
  void let_in(std::uint32_t rank, const std::string& name, std::vector<std::byte>&& address,
              std::function<void(transport::door_answer&&)> then) override;

  void fence(peer& whom, const std::string& cause);
  void evict(peer& whom);
  void look_again_at_early();
  void tell_watchers(const std::vector<membership_change>& changes, std::uint32_t epoch);
  void adopt(const caf::strong_actor_ptr& actor);
  void end_actors();
  bool waits_for_answers() const {
    return retries_ > 0 || remote_actors_->requests().size() > 0 || expiring_;
  }

  // dispatcher
  void dispatch(transport::incoming_message&& message, engine_unit& unit) override;
  void peer_lost(transport::rank_t peer, const transport::peer_loss& why) override;
  clock::time_point run_timers(clock::time_point now) override;
  void prepare_thread() noexcept override;

  const node_identity identity_;
  const detail::device_owner own_devices_;
  const std::shared_ptr<peer_table> table_ = std::make_shared<peer_table>();
  peer_table& peers_ = *table_;
  peer* self_ = nullptr;
  std::atomic<std::int64_t> rpc_timeout_ms_;

  std::shared_ptr<pool> pool_;
  std::shared_ptr<engine> engine_;
  std::shared_ptr<remote_actors> remote_actors_;
  std::unique_ptr<termination_detection> termination_;
  std::unique_ptr<membership_actor> membership_;
  std::unique_ptr<deferred_sink> parts_;  // between the transport and the rest
  std::unique_ptr<transport::transport> net_;
  std::unique_ptr<caf_host> host_;
  // The same while its timers run: the thread that minds them lives before it and after it.
  std::atomic<caf_host*> timed_{nullptr};
  std::function<void(std::chrono::milliseconds)> leave_;  // the rendezvous' goodbye
  std::unique_ptr<transport::door_keeper> door_;  // on rank 0 of a job that admits newcomers
  transport::rank_t next_rank_ = 0;               // for one of them; the keeper's

  // What it has applied; what it sends says so as soon as new members can be found.
  std::atomic<std::uint32_t> applied_{0};
  std::uint32_t joined_ = 0;                       // the epoch in which it came
  std::deque<transport::incoming_message> early_;  // of an epoch to come; of the leading thread

  sleepers sleepers_;
  std::atomic<std::uint64_t> random_;
  std::atomic<int> retries_{0};
  std::atomic<bool> expiring_{false};  // requests are, whose callers know already

  std::mutex actors_mutex_;
  std::vector<caf::weak_actor_ptr> spawned_;

  const detail::job_rules rules_;
  const detail::operator_permission operators_;
  const leaked_rref on_leaked_rref_;
  const forked::resident lives_here_;
  std::atomic<transport::rank_t> leader_{0};
  std::atomic<bool> open_{false};
  std::atomic<bool> closed_{true};
  std::atomic<bool> parting_{false};            // it has left the job
  std::atomic<bool> waits_for_the_end_{false};  // the program, in a graceful shutdown

  mutable std::mutex end_mutex_;
  std::optional<fault> ended_;  // the job, for this node

  std::mutex watchers_mutex_;
  std::vector<member_watcher> watchers_;

  mutable gate uses_;  // of the network and the actor system, by threads of the program
  std::mutex shutdown_mutex_;
};

}  // namespace troupe
