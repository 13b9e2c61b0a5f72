#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "troupe/transport/virtual/connection.hpp"
#include "troupe/transport/virtual/doorbell.hpp"

namespace troupe::transport::virtual_net {

/// A node on a virtual network: its peers, its connections, and what it has to hear.
class endpoint final : public transport {
public:
  endpoint(std::shared_ptr<virtual_network> network, fabric& net, rank_t rank, sink& to,
           payload_pool& pool);
  ~endpoint() override;

  std::vector<std::byte> address() const override;
  void add_peer(rank_t rank, std::span<const std::byte> address) override;
  bool send(rank_t rank, std::uint64_t order, frame&& envelope,
            std::vector<outgoing_payload>&& payloads) override;
  unsigned progress() override;
  int event_fd() const override { return bell_.fd(); }
  bool arm() override;
  void wake() override;
  bool idle() const override { return unacknowledged_ == 0; }
  void close_peer(rank_t rank, bool force) override;
  std::vector<route> routes() const override;
  counters count() const override { return counters_; }

  // For the fabric.
  const node_key& key() const noexcept { return key_; }
  bool ready() const noexcept { return woken_ || !messages_.empty() || !losses_.empty(); }

  /// `who` is a peer, or has sent something.
  bool knows(const node_key& who) const;

  /// Says what became of it: delivered, repeated or stale.
  datagram_event take(const datagram& d);
  void alarmed(const alarm& a);
  void heard_of_end(const node_key& who, loss_kind kind);

  /// Drops what `who` has sent, unless it was added.
  void forget(const node_key& who);

  /// Deaf and dumb from now on.
  void crash();

  /// Something is under way to this node: who sleeps on a self-driven network shall look.
  void wake_network() noexcept { bell_.ring_if_armed(); }

private:
  // Of a silent peer this is all there is.
  struct peer {
    std::uint64_t id = 0;
    connection* way = nullptr;        // once something was sent or received
    std::unique_ptr<peer_loss> lost;  // lost or closed
  };
  struct heard {
    node_key from;
    incoming_message message;
  };
  struct loss {
    node_key who;
    peer_loss why;
  };

  unsigned tell();
  void admit(const node_key& who, peer& p);
  connection* reach(const node_key& from);
  connection& open(const node_key& to, peer* added);
  void end(const node_key& who, peer_loss why);
  void deliver(const node_key& from, std::vector<incoming_message>& messages);
  void erase(connection& c);

  // Tells who waits for it when `change` makes this node ready.
  template <class Change>
  void changing(Change change) {
    const bool before = ready();
    change();
    if (before || !ready()) return;
    bell_.ring_if_armed();
    net_.became_ready(key_.rank);
  }

  const std::shared_ptr<virtual_network> network_;
  fabric& net_;
  sink& sink_;
  payload_pool& pool_;
  const node_key key_;
  bool crashed_ = false;
  std::size_t unacknowledged_ = 0;
  std::map<rank_t, peer> peers_;
  std::map<std::uint64_t, std::unique_ptr<connection>> connections_;  // by the other object's id
  std::size_t early_ = 0;  // connections to objects that were not added

  std::vector<heard> messages_;
  std::vector<loss> losses_;
  std::vector<incoming_message> complete_;  // while a datagram is taken
  bool woken_ = false;
  mutable doorbell bell_;
  counters counters_;
};

}  // namespace troupe::transport::virtual_net
