#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string_view>

#include "troupe/actors/future/future.hpp"
#include "troupe/actors/messaging/call_options.hpp"
#include "troupe/messages/base/function_ref.hpp"

namespace troupe {

class active_calls;
class decoder;
class destination;
class encoder;
class engine;
class engine_unit;
class handle_scope;
class node_lifecycle;
class opened_envelope;
class peer;
class peer_table;
class remote_actors;
class reply_sink;
class request_table;
class rpc_node;
class sleepers;
struct call_server;
struct worker_info;

namespace detail {

class outgoing_message;
class rref_table;
class operator_permission;

}  // namespace detail

/// The calls of one node: those that it makes and those that it serves. What RpcAgent is in
/// torch.distributed.rpc. Thread-safe.
class rpc_agent {
public:
  /// What else of a node calls use.
  struct parts {
    rpc_node& node;
    node_lifecycle& life;
    peer_table& peers;
    std::shared_ptr<engine> driver;
    std::shared_ptr<remote_actors> actors;
    std::shared_ptr<request_table> requests;
    detail::rref_table* rrefs = nullptr;
    const detail::operator_permission* operators = nullptr;
  };

  /// `limit`: of calls that name none; 0: none. `seed`: of `random`.
  rpc_agent(const parts& node, std::chrono::milliseconds limit, std::uint64_t seed);
  ~rpc_agent();
  rpc_agent(const rpc_agent&) = delete;
  rpc_agent& operator=(const rpc_agent&) = delete;

  /// `node` owns this agent; `shared_from_this` shares ownership of `node`. Called once, before the
  /// node is open.
  void belongs_to(const std::shared_ptr<void>& node);
  std::shared_ptr<rpc_agent> shared_from_this() const { return self_of_.lock(); }
  std::weak_ptr<rpc_agent> weak_from_this() const noexcept { return self_of_; }

  /// The node that it is a part of.
  rpc_node& node() const noexcept { return node_.node; }
  const worker_info& self() const noexcept;

  /// Throws unknown_worker.
  peer& find(const destination& to) const;

  /// Throws not_initialized after the shutdown, and in a forked process.
  void check_open() const;
  bool is_open() const noexcept;

  /// Sends a call of the function `hash` whose arguments `write` puts into the body. The answer
  /// goes to `sink`, also when sending fails at once. Returns the request's id; 0: it has failed,
  /// or has none, since `sink` is no_reply_sink. Hot path.
  std::uint64_t call(peer& to, std::uint64_t hash, std::string_view name,
                     const std::shared_ptr<reply_sink>& sink, const call_options& how,
                     function_ref<void(encoder&, handle_scope&)> write);

  /// A call has come from `from`, in a message of `size` bytes. Runs it on this thread if
  /// `may_run_inline` and the engine permits it; otherwise another thread of the node will. On the
  /// leading thread. Hot path.
  void receive_call(opened_envelope& message, peer& from, std::size_t size, engine_unit& unit,
                    bool may_run_inline);

  /// A message of the calls_channel. Throws decode_error.
  void deliver_control(decoder& in, peer& from);

  const std::shared_ptr<engine>& driver() const noexcept { return node_.driver; }
  remote_actors& actors() const noexcept { return *node_.actors; }
  request_table& requests() const noexcept { return *node_.requests; }
  active_calls& active() const noexcept;
  detail::rref_table& rrefs() const noexcept { return *node_.rrefs; }
  const detail::operator_permission& operators() const noexcept { return *node_.operators; }

  std::chrono::milliseconds rpc_timeout() const noexcept {
    return std::chrono::milliseconds(rpc_timeout_ms_.load());
  }
  /// Throws invalid_argument.
  void set_rpc_timeout(std::chrono::milliseconds limit);

  /// Ready after so long; fails with not_initialized when this node ends before.
  future<void> sleep_for(std::chrono::nanoseconds time);
  /// The same at `until`, for callers that may want to `forget` it before.
  future<void> wake_at(clock::time_point until);
  void forget(const future<void>& one, clock::time_point until);

  /// A random number from the node's own source, which in a simulation depends on the seed.
  std::uint64_t random() noexcept;

  /// Counts calls with a `retry`; a graceful shutdown waits for them.
  void begin_retries() noexcept { ++retries_; }
  void end_retries() noexcept { --retries_; }

  /// Does a call of this node wait for its answer, or for its next attempt?
  bool waits_for_answers() const;

  /// Ends calls whose limit has passed, and sleepers; returns when the next one is due. On the
  /// timer thread.
  clock::time_point run_timers(clock::time_point now);

  /// The node ends: sleepers fail with `why`.
  void close(const fault& why);

private:
  class queued_call;

  std::uint64_t send_call(peer& to, std::uint64_t hash, std::string_view name,
                          const std::shared_ptr<reply_sink>& sink, const call_options& how,
                          detail::outgoing_message& message);
  void execute(opened_envelope& message, peer& from, std::size_t size, clock::time_point deadline,
               const fault* refusal = nullptr) noexcept;

  const parts node_;
  const std::shared_ptr<call_server> server_;
  const peer* const self_;
  std::weak_ptr<rpc_agent> self_of_;
  std::atomic<std::int64_t> rpc_timeout_ms_;
  const std::unique_ptr<sleepers> sleepers_;
  std::atomic<std::uint64_t> random_;
  std::atomic<int> retries_{0};
  std::atomic<bool> expiring_{false};  // the callers of expired requests are being notified
};

}  // namespace troupe
