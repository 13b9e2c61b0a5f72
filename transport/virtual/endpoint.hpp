#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "troupe/transport/virtual/connection.hpp"
#include "troupe/transport/virtual/doorbell.hpp"

namespace troupe::transport {

class virtual_network;

}

namespace troupe::transport::virtual_net {

/// A node on a virtual network: its peers, its connections, and what waits for delivery to its
/// sink.
class endpoint final : public transport, public attached_node {
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
  const node_key& key() const noexcept override { return key_; }
  bool ready() const noexcept override { return woken_ || !messages_.empty() || !losses_.empty(); }
  bool knows(const node_key& who) const override;
  datagram_event take(const datagram& d) override;
  void alarmed(const alarm& a) override;
  void on_end(const node_key& who, loss_kind kind) override;
  void forget(const node_key& who) override;
  void crash() override;
  void wake_network() noexcept override { bell_.ring_if_armed(); }

private:
  // All that is kept of a peer without a connection.
  struct peer {
    std::uint64_t id = 0;
    connection* way = nullptr;        // once something was sent or received
    std::unique_ptr<peer_loss> lost;  // lost or closed
  };
  struct arrival {
    node_key from;
    incoming_message message;
  };
  struct loss {
    node_key who;
    peer_loss why;
  };

  unsigned deliver_to_sink();
  void admit(const node_key& who, peer& p);
  connection* reach(const node_key& from);
  connection& open(const node_key& to, peer* added);
  void end(const node_key& who, peer_loss why);
  void deliver(const node_key& from, std::vector<incoming_message>& messages);
  void erase(connection& c);

  // Rings the bell and reports to the fabric when `change` makes this node ready.
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

  std::vector<arrival> messages_;
  std::vector<loss> losses_;
  std::vector<incoming_message> complete_;  // while a datagram is taken
  bool woken_ = false;
  mutable doorbell bell_;
  counters counters_;
};

}  // namespace troupe::transport::virtual_net
