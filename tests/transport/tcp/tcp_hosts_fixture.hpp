#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/hosts.hpp"
#include "tests/transport/conformance/conformance_node.hpp"
#include "troupe/transport/tcp/tcp_transport.hpp"

namespace troupe::transport::test {

using troupe::test::hosts;
using troupe::test::on_host;
using troupe::test::wires;

inline constexpr std::size_t MiB = 1 << 20;

/// Nodes of TCP on several hosts, as far as network namespaces are some.
class tcp_hosts : public testing::Test {
protected:
  // Of what takes milliseconds on a machine that has nothing else to do.
  static constexpr std::chrono::seconds limit{100};

  struct placed {
    unsigned host;
    std::unique_ptr<node> it;
  };

  void make_hosts(unsigned count, wires how = {}) {
    net_ = std::make_unique<hosts>(count, std::move(how));
    if (!net_->problem().empty()) GTEST_SKIP() << net_->problem();
  }

  tcp_options options_of(rank_t rank) const {
    tcp_options o;
    o.rank = rank;
    o.secret = secret_;
    return o;
  }

  placed make(unsigned host, const tcp_options& options) {
    const on_host there(*net_, host);
    auto n = std::make_unique<node>();
    n->net = start(options, *n);
    return {host, std::move(n)};
  }

  virtual std::unique_ptr<transport> start(const tcp_options& options, node& of) {
    return make_tcp_transport(options, of.received, of.pool);
  }
  virtual unsigned host_of(rank_t rank) const { return rank; }

  void make_nodes(unsigned count, const std::function<void(tcp_options&)>& change = {}) {
    for (rank_t rank = 0; rank < count; ++rank) {
      auto options = options_of(rank);
      if (change) change(options);
      nodes_.push_back(make(host_of(rank), options));
    }
    for (rank_t a = 0; a < count; ++a)
      for (rank_t b = 0; b < count; ++b)
        if (a != b) net(a).add_peer(b, net(b).address());
  }

  transport& net(rank_t rank) { return *nodes_.at(rank).it->net; }
  recorder& at(rank_t rank) { return nodes_.at(rank).it->received; }

  // Until all of them sleep: each in turn makes progress on its host.
  void progress() {
    for (auto& one : nodes_) {
      if (!one.it) continue;
      const on_host there(*net_, one.host);
      for (int i = 0; i < 16 && one.it->net->progress() > 0; ++i) {
      }
    }
  }

  template <class Done>
  bool until(Done done, std::chrono::milliseconds within = limit) {
    const auto end = std::chrono::steady_clock::now() + within;
    while (!done()) {
      progress();
      if (std::chrono::steady_clock::now() > end) return done();
    }
    return true;
  }

  void pass_for(std::chrono::milliseconds time) {
    until([] { return false; }, time);
  }

  bool exchange(rank_t a, rank_t b) {
    at(a).messages.clear();
    at(b).messages.clear();
    net(a).send(b, 0, patterned_frame(8, 1));
    net(b).send(a, 0, patterned_frame(8, 2));
    return until([&] { return !at(a).messages.empty() && !at(b).messages.empty(); });
  }

  void send_payload(rank_t from, rank_t to, std::size_t size, std::uint64_t seed) {
    std::vector<outgoing_payload> payloads;
    payloads.push_back(patterned_payload(size, seed));
    net(from).send(to, 0, patterned_frame(100, seed), std::move(payloads));
  }

  void expect_lost(rank_t at_rank, std::chrono::steady_clock::time_point since) {
    EXPECT_TRUE(until([&] { return !at(at_rank).lost.empty(); }));
    const auto after = std::chrono::steady_clock::now() - since;
    ASSERT_EQ(at(at_rank).lost.size(), 1u);
    EXPECT_EQ(at(at_rank).lost[0].second.kind, loss_kind::broken);
    EXPECT_LT(after, std::chrono::seconds(30));  // 2.5 s, on a machine that has nothing else to do
    std::printf("rank %u lost its peer after %lld ms: %s\n", at_rank,
                static_cast<long long>(after / std::chrono::milliseconds(1)),
                at(at_rank).lost[0].second.text.c_str());
  }

  // Connections of a host that are made, by its own address.
  std::map<std::string, int> connections_of(unsigned host) {
    std::map<std::string, int> out;
    const auto command = "ip netns exec " + net_->space(host) + " ss -H -t -n state established";
    auto* const lines = popen(command.c_str(), "r");
    char local[256];
    while (fscanf(lines, "%*s %*s %255s %*[^\n]", local) == 1) {
      std::string text = local;
      ++out[text.substr(0, text.rfind(':'))];
    }
    pclose(lines);
    return out;
  }

  const job_secret secret_;
  std::unique_ptr<hosts> net_;
  std::vector<placed> nodes_;
};

/// With a wire that is cut in one of three ways.
class tcp_cut : public tcp_hosts, public testing::WithParamInterface<const char*> {
protected:
  void cut() {
    const std::string how = GetParam();
    if (how == "both_ways") net_->cut(1);
    if (how == "silenced") net_->silence(1);
    if (how == "deafened") net_->deafen(1);
  }
};

}  // namespace troupe::transport::test
