#pragma once

#include <caf/actor_control_block.hpp>
#include <caf/message_id.hpp>
#include <mutex>
#include <string_view>
#include <vector>

#include "troupe/actors/messaging/reply_sink.hpp"
#include "troupe/actors/messaging/rref_id.hpp"
#include "troupe/actors/sync/futex.hpp"
#include "troupe/messages/envelope/envelope.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe {

/// A request that waits for its answer. Either `sink`, or the actor `sender` that knows it as
/// `mid`.
struct pending_request {
  transport::rank_t peer = 0;
  std::string_view function;  ///< what was called, or a message's type; static, or of the sink
  clock::time_point deadline = clock::time_point::max();
  std::chrono::milliseconds limit{0};
  std::shared_ptr<reply_sink> sink;
  caf::strong_actor_ptr sender;
  caf::message_id mid;
  std::uint64_t context = 0;  ///< in which `sender` has asked
  bool watched = false;       ///< its answer may lose gradients
  /// What has been given away in its arguments, which the callee may not have read.
  std::vector<detail::written_reference> references{};
  std::uint64_t target = 0;  ///< of a call: what the function goes by
  /// Describes the function as this node has it, for an error if the callee's differs; null: no
  /// call.
  std::string (*structure_here)(std::uint64_t target) = nullptr;
  bool wait = true;  ///< for room in the window of `peer`, rather than fail
  bool urgent = false;
  bool late = false;  ///< it has timed out, or was given up
  /// A handler, an actor or a further attempt deals with its outcome.
  bool looked_after = false;

  explicit operator bool() const noexcept { return sink || sender; }
};

/// Requests that failed because their peer was lost.
struct lost_requests {
  std::size_t all = 0;
  std::size_t of_program = 0;  ///< that the program made itself, in no handler, and for one attempt
};

/// The requests of a node that wait for an answer from elsewhere. Thread-safe. Whoever takes a
/// request out is the only one to answer it.
class request_table {
public:
  /// The id that the answer shall name. Never 0, not used again for a long time. `request` stays as
  /// it is when there is no memory.
  std::uint64_t add(pending_request&& request);

  /// Empty when there is none that waits for `peer` (a late, doubled or foreign answer).
  pending_request take(std::uint64_t id, transport::rank_t peer);

  /// The sink that waits for the answer; null: none does, or an actor.
  std::shared_ptr<reply_sink> sink_of(std::uint64_t id, transport::rank_t peer);

  /// Nobody waits for it any more: it stays as a late one. False when there is none that waits.
  bool give_up(std::uint64_t id, transport::rank_t peer);

  /// All that wait for `peer`.
  std::vector<pending_request> take_peer(transport::rank_t peer);

  std::vector<pending_request> take_all();

  /// Those that nobody waits for any more.
  std::vector<pending_request> take_late();

  /// All whose deadline has passed; `next` becomes the earliest deadline of the others. They stay
  /// in the table, as late ones, until their answer or the end of their peer.
  std::vector<pending_request> take_expired(clock::time_point now, clock::time_point& next);

  /// Late ones left out.
  std::size_t size() const;

private:
  struct slot {
    pending_request request;
    std::uint32_t generation = 0;
    std::uint32_t next_free = 0;
  };

  slot* find(std::uint64_t id, transport::rank_t peer);
  void be_late(pending_request& request) noexcept;
  pending_request empty(std::uint32_t index);

  static constexpr std::uint32_t none = ~std::uint32_t{0};

  mutable std::mutex mutex_;
  std::vector<slot> slots_;
  std::uint32_t first_free_ = none;
  std::size_t used_ = 0;
};

}  // namespace troupe
