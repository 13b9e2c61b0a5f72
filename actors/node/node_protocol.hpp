#pragma once

#include <functional>
#include <map>
#include <memory>

#include "troupe/actors/messaging/control_channel.hpp"

namespace troupe {

class decoder;
class message_router;
class node_core;
class peer;

namespace detail {

/// One node's end of a control protocol that is above node/: process groups, supervision. It
/// sends by `node_core::actors().out().send_control`.
class node_protocol {
public:
  virtual ~node_protocol() = default;

  /// A message of its channel, which may have tensors, but no handles. On the thread that leads, so
  /// it is brief and never waits. What it throws goes to the log, and the message is dropped.
  virtual void deliver(decoder& body, peer& from) = 0;

  /// `whom` has left or is lost: no message of it follows. Called once for each, by any thread.
  virtual void evict(const peer& whom) noexcept = 0;

  /// The node ends: all that waits for something gets an error now. Messages may come until this is
  /// destroyed.
  virtual void close() noexcept = 0;
};

using protocol_maker = std::function<std::unique_ptr<node_protocol>(node_core&)>;

/// Every node created from now on gets what `make` returns; it lives as long as the node's parts
/// and is made before the node is open, when `node_core::members` is not there yet. All nodes of a
/// job have to agree on the channel. Throws invalid_argument if the channel is the runtime's own,
/// taken, or beyond max_control_channels. Thread-safe.
void register_protocol(control_channel channel, protocol_maker make);

/// Nodes created from now on do not get it. Thread-safe.
void unregister_protocol(control_channel channel);

/// The registered protocols of one node.
class protocol_table {
public:
  explicit protocol_table(node_core& node);
  ~protocol_table();
  protocol_table(const protocol_table&) = delete;
  protocol_table& operator=(const protocol_table&) = delete;

  /// nullptr: none was registered when the node was made.
  node_protocol* find(control_channel channel) const noexcept;

  /// Their messages come from there.
  void attach(message_router& router);
  void evict(const peer& whom) noexcept;
  void close() noexcept;

private:
  std::map<control_channel, std::unique_ptr<node_protocol>> all_;
};

}  // namespace detail

}  // namespace troupe
