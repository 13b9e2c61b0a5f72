#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/messaging/control_channel.hpp"
#include "troupe/actors/messaging/outbox.hpp"
#include "troupe/actors/scheduler/engine.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe {

class remote_actors;
class rpc_agent;

/// Routes incoming messages: calls to the rpc_agent, messages of actors to remote_actors, control
/// messages to the handler of their channel. A message of a later epoch waits until this node has
/// applied the change of members that it follows. On the leading thread, except for `set_epoch`.
class message_router {
public:
  /// Handles one channel's messages. If it throws, the message is dropped and logged.
  using handler = std::function<void(opened_envelope& message, peer& from, engine_unit& unit)>;
  /// The same for a channel that takes messages from any rank, whatever its epoch: its handler
  /// checks the sender.
  using unchecked_handler = std::function<void(opened_envelope& message, transport::rank_t from)>;

  /// `joined`: the epoch in which this node joined.
  message_router(const node_identity& self, std::uint32_t joined, peer_table& peers, engine& driver,
                 std::shared_ptr<remote_actors> actors, rpc_agent& calls);

  /// Registers a protocol. Before the node is open.
  void add(control_channel channel, handler take);
  /// One that reads the body alone, which has neither tensors nor handles.
  void add_body(control_channel channel, std::function<void(decoder& in, peer& from)> take);
  void add_unchecked(control_channel channel, unchecked_handler take);

  /// Hot path.
  void dispatch(transport::incoming_message&& message, engine_unit& unit);

  /// The epoch of the membership that this node has applied. Any thread.
  std::uint32_t epoch() const noexcept { return epoch_.load(); }

  /// A change of members has been applied: what waited for it is looked at. Any thread.
  void set_epoch(std::uint32_t epoch);

private:
  void route(transport::incoming_message&& message, std::uint32_t epoch, engine_unit& unit,
             bool may_run_inline);
  void route_opened(opened_envelope& message, transport::rank_t rank, std::size_t size,
                    std::uint32_t epoch, engine_unit& unit, bool may_run_inline);
  void give_to_channel(opened_envelope& message, peer& from, engine_unit& unit);
  void turn_away(const opened_envelope& message, peer& from) noexcept;

  const node_identity self_;
  const std::uint32_t joined_;
  peer_table& peers_;
  engine& engine_;
  const std::shared_ptr<remote_actors> actors_;
  rpc_agent& calls_;

  std::array<handler, max_control_channels> channels_;
  std::array<unchecked_handler, max_control_channels> unchecked_;

  std::atomic<std::uint32_t> epoch_;
  std::deque<transport::incoming_message> early_;  // of an epoch to come; of the leading thread
};

}  // namespace troupe
