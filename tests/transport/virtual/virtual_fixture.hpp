#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/transport/conformance/conformance_node.hpp"
#include "troupe/transport/virtual/virtual_network.hpp"

namespace troupe::transport::test {

using namespace std::chrono_literals;

/// Nodes on a virtual network, driven by virtual time alone.
class virtual_world {
public:
  explicit virtual_world(virtual_network_options options = {})
      : net(std::make_shared<virtual_network>(std::move(options))) {}

  /// Writes down everything that happens to datagrams.
  void keep_trace() {
    net->on_event = [this](const trace_event& e) { trace += to_string(e) + '\n'; };
  }

  /// A node, perhaps in place of an earlier one of the same rank.
  node& make(rank_t rank) {
    auto& n = nodes[rank];
    n.reset();
    n = std::make_unique<node>();
    n->net = make_virtual_transport(net, rank, n->received, n->pool);
    return *n;
  }

  node& operator[](rank_t rank) { return *nodes.at(rank); }

  void add(rank_t at, rank_t peer) { (*this)[at]->add_peer(peer, (*this)[peer]->address()); }

  void connect(rank_t a, rank_t b) {
    add(a, b);
    add(b, a);
  }

  /// Nodes 0 to `count` - 1, each connected to all others.
  void make_all(rank_t count) {
    for (rank_t r = 0; r < count; ++r) make(r);
    for (rank_t r = 0; r < count; ++r)
      for (rank_t s = 0; s < r; ++s) connect(r, s);
  }

  void send(rank_t from, rank_t to, std::uint64_t seed = 1, std::size_t size = 40) {
    (*this)[from]->send(to, 1, patterned_frame(size, seed));
  }

  void send_payload(rank_t from, rank_t to, std::size_t size) {
    std::vector<outgoing_payload> payloads;
    payloads.push_back(patterned_payload(size, 1));
    (*this)[from]->send(to, 0, patterned_frame(8, 1), std::move(payloads));
  }

  std::size_t received(rank_t rank) { return (*this)[rank].received.messages.size(); }
  std::size_t lost(rank_t rank) { return (*this)[rank].received.lost.size(); }
  peer_loss why(rank_t rank) { return (*this)[rank].received.lost.at(0).second; }

  void progress() {
    for (auto& [rank, n] : nodes)
      if (n->net && net->ready(rank)) n->net->progress();
  }

  /// Lets everything happen until `done`, at most for `within` of virtual time.
  template <class Done>
  bool run(Done done, std::chrono::nanoseconds within = 60s) {
    const auto end = net->now() + within;
    while (true) {
      progress();
      if (done()) return true;
      if (net->next() > end) break;
      net->advance(net->next());
    }
    net->advance(end);
    progress();
    return done();
  }

  void run_for(std::chrono::nanoseconds time) {
    run([] { return false; }, time);
  }

  std::string trace;  // nodes write to it when they end
  std::shared_ptr<virtual_network> net;
  std::map<rank_t, std::unique_ptr<node>> nodes;
};

inline virtual_network_options clean_options(std::uint64_t seed = 1) {
  virtual_network_options o;
  o.seed = seed;
  return o;
}

/// Everything that a link can do.
inline virtual_network_options bad_options(std::uint64_t seed, double loss) {
  virtual_network_options o = clean_options(seed);
  o.links.loss = loss;
  o.links.duplication = 0.1;
  o.links.reordering = 0.2;
  return o;
}

}  // namespace troupe::transport::test
