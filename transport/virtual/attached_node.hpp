#pragma once

#include "troupe/transport/virtual/agenda.hpp"

namespace troupe::transport::virtual_net {

/// What a fabric asks of a node that is attached to it. An `endpoint` implements it.
class attached_node {
public:
  virtual ~attached_node() = default;

  virtual const node_key& key() const noexcept = 0;

  /// `progress` has something to deliver, or the node was woken.
  virtual bool ready() const noexcept = 0;

  /// `who` is a peer, or has sent something.
  virtual bool knows(const node_key& who) const = 0;

  /// Takes a datagram; returns what became of it: delivered, repeated or stale.
  virtual datagram_event take(const datagram& d) = 0;

  virtual void alarmed(const alarm& a) = 0;

  /// The transport object `who` has ended.
  virtual void on_end(const node_key& who, loss_kind kind) = 0;

  /// Drops what `who` has sent, unless it was added.
  virtual void forget(const node_key& who) = 0;

  /// From now on the node receives nothing and sends nothing.
  virtual void crash() = 0;

  /// Something is on its way to this node: wakes the thread that sleeps on a self-driven network.
  virtual void wake_network() noexcept = 0;
};

}  // namespace troupe::transport::virtual_net
