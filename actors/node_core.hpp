#pragma once

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/caf_host.hpp"
#include "actors/engine.hpp"
#include "actors/function_table.hpp"
#include "actors/mail.hpp"
#include "actors/options.hpp"
#include "actors/quiescence.hpp"
#include "actors/remoting.hpp"
#include "actors/worker_info.hpp"
#include "messages/storage_pool.hpp"

namespace troupe {

/// A node's numbers, for people and tests.
struct debug_info {
  unsigned threads = 0;
  unsigned idle_threads = 0;
  std::size_t calls_in_flight = 0;  ///< requests of this node that wait for an answer
  std::size_t actors_held = 0;      ///< actors here that other nodes have handles of
  std::size_t remote_handles = 0;   ///< handles here of other nodes' actors
  transport::counters traffic;
};

/// The parts of a node, wired together: rendezvous, transport, engine, actors. Program code holds a
/// `node`; this is what is behind it.
class node_core final : private dispatcher {
public:
  /// Blocks until the whole job is there. Throws rendezvous_error, transport_error and the like.
  static std::shared_ptr<node_core> join(const rpc_options& options);

  /// Nodes of this process on a network of its own, without a rendezvous: `names.size()` of them.
  static std::vector<std::shared_ptr<node_core>> join_loopback(
      const std::vector<std::string>& names, const rpc_options& options);
  ~node_core();

  const worker_info& self() const noexcept { return workers_[identity_.rank]; }
  const std::vector<worker_info>& workers() const noexcept { return workers_; }

  /// Throws unknown_worker.
  transport::rank_t find(const destination& to) const;

  /// Throws not_initialized after the shutdown.
  void check_open() const;

  /// Sends a call of the function `hash` whose arguments `write` puts into the body. The answer
  /// goes to `sink`, also when sending fails at once. `limit` 0: no limit; negative: the node's
  /// own.
  template <class Write>
  void call(transport::rank_t to, std::uint64_t hash, std::string_view name,
            std::shared_ptr<reply_sink> sink, std::chrono::milliseconds limit, Write&& write) {
    try {
      check_open();
      gate::pass pass(remoting_->entrance());
      if (!pass) throw not_initialized("the node has been shut down");
      border handles(*remoting_, to);
      letter text(&handles);
      write(text.body());
      if (send_call(to, hash, name, sink, limit, text)) handles.sent();
    } catch (const error& e) {
      auto why = e.fault();
      if (why.node.empty()) why.node = workers_[to].name;
      if (why.function.empty()) why.function = name;
      sink->on_fault(std::move(why));
    }
  }

  /// Stays until the shutdown; `spawn` is for those who may race with that.
  caf::actor_system& system();
  const std::shared_ptr<engine>& driver() const noexcept { return engine_; }
  remoting& actors() noexcept { return *remoting_; }

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

  std::vector<transport::route> routes() const;
  debug_info info() const;
  void set_rpc_timeout(std::chrono::milliseconds limit);
  std::chrono::milliseconds rpc_timeout() const noexcept {
    return std::chrono::milliseconds(rpc_timeout_ms_.load());
  }

private:
  struct pool;

  node_core(node_identity identity, std::vector<worker_info> workers,
            std::vector<std::uint64_t> incarnations, const rpc_options& options);

  void open(std::unique_ptr<transport::transport> net);
  void close(bool together);
  static void destroy(node_core* core) noexcept;
  bool send_call(transport::rank_t to, std::uint64_t hash, std::string_view name,
                 const std::shared_ptr<reply_sink>& sink, std::chrono::milliseconds limit,
                 letter& text);
  void execute(opened_envelope& message, transport::rank_t from) noexcept;
  void adopt(const caf::strong_actor_ptr& actor);
  void end_actors();

  // dispatcher
  void dispatch(transport::incoming_message&& message, engine_unit& unit) override;
  void peer_lost(transport::rank_t peer, const transport::peer_loss& why) override;
  clock::time_point run_timers(clock::time_point now) override;
  void prepare_thread() noexcept override;

  node_identity identity_;
  std::vector<worker_info> workers_;
  std::vector<std::uint64_t> incarnations_;
  std::unordered_map<std::string, transport::rank_t> by_name_;
  std::atomic<std::int64_t> rpc_timeout_ms_;

  std::shared_ptr<pool> pool_;
  std::shared_ptr<engine> engine_;
  std::unique_ptr<mail> mail_;
  std::shared_ptr<remoting> remoting_;
  std::unique_ptr<quiescence> quiescence_;
  std::unique_ptr<transport::transport> net_;
  std::unique_ptr<caf_host> host_;
  std::function<void(std::chrono::milliseconds)> leave_;  // the rendezvous' goodbye

  std::mutex actors_mutex_;
  std::vector<caf::weak_actor_ptr> spawned_;

  const int process_;  // whose threads the engine's are
  std::atomic<bool> open_{false};
  mutable gate uses_;  // of the network and the actor system, by threads of the program
  std::mutex shutdown_mutex_;
};

}  // namespace troupe
