#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "tests/transport/conformance/conformance_node.hpp"
#include "troupe/transport/lending/lending_transport.hpp"
#include "troupe/transport/loopback/loopback.hpp"

namespace troupe::transport::lending::test {

using ::troupe::transport::test::has_pattern;
using ::troupe::transport::test::pattern;
using ::troupe::transport::test::patterned_frame;
using ::troupe::transport::test::patterned_payload;
using ::troupe::transport::test::run_until;
using ::troupe::transport::test::take_all;
using namespace std::chrono_literals;

// A transport whose next sends fail, or whose peers are not told of at first.
struct failing final : transport {
  explicit failing(std::unique_ptr<transport> to) : inner(std::move(to)) {}
  std::unique_ptr<transport> inner;
  int failures = 0;
  std::function<void()> before_adding = [] {};
  std::function<void(const std::vector<outgoing_payload>&)> before_sending;

  std::vector<std::byte> address() const override { return inner->address(); }
  void add_peer(rank_t peer, std::span<const std::byte> address) override {
    before_adding();
    inner->add_peer(peer, address);
  }
  bool send(rank_t peer, std::uint64_t order, frame&& envelope,
            std::vector<outgoing_payload>&& payloads) override {
    if (failures > 0) {
      --failures;
      throw std::bad_alloc();
    }
    if (before_sending) before_sending(payloads);
    return inner->send(peer, order, std::move(envelope), std::move(payloads));
  }
  unsigned progress() override { return inner->progress(); }
  int event_fd() const override { return inner->event_fd(); }
  bool arm() override { return inner->arm(); }
  void wake() override { inner->wake(); }
  bool idle() const override { return inner->idle(); }
  void close_peer(rank_t peer, bool force) override { inner->close_peer(peer, force); }
  std::vector<route> routes() const override { return inner->routes(); }
  counters count() const override { return inner->count(); }
};

// A node with an arena of its own, as if it were a process of its own.
struct lender : ::troupe::transport::test::node {
  std::unique_ptr<arena> memory;

  // Bytes in the arena. `freeze` keeps them, as a tensor's storage would be kept.
  outgoing_payload payload(std::size_t size, std::uint64_t seed) const {
    auto block = memory->allocate(size);
    auto* const bytes = static_cast<std::byte*>(block.get());
    for (std::size_t i = 0; i < size; ++i) bytes[i] = pattern(seed, i);
    outgoing_payload out;
    out.data = bytes;
    out.size = size;
    out.keep = std::make_shared<c10::DataPtr>(std::move(block));
    out.freeze = [](const outgoing_payload& p) { return p.keep; };
    return out;
  }
  // The same bytes, which nobody else refers to.
  outgoing_payload given_payload(std::size_t size, std::uint64_t seed) const {
    auto out = payload(size, seed);
    out.take = &take_all;
    return out;
  }
  bool holds(const void* data) const { return memory->owns(data); }
  std::size_t in_use() const { return memory->count().in_use; }
};

struct lending_test : testing::Test {
  /// `each_apart`: as if each node had a process of its own.
  explicit lending_test(bool each_apart = false) : apart(each_apart) {
    begin(a, 0);
    begin(b, 1);
    meet();
  }

  void begin(lender& n, rank_t rank) {
    std::string why_not;
    arena_options of_test;
    of_test.limit = std::size_t{256} << 20;
    of_test.housekeeping = false;
    if (!n.memory) n.memory = arena::make(of_test, why_not);
    ASSERT_TRUE(n.memory) << why_not;
    lending_options options;
    options.rank = rank;
    options.secret = secret;
    options.memory = n.memory.get();
    options.most_lent = most_lent;
    options.apart = apart;
    n.net = make_lending_transport(
        options,
        [&](sink& to, payload_pool& pool) {
          inner_sinks[rank] = &to;
          auto made = std::make_unique<failing>(make_loopback_transport(network, rank, to, pool));
          inner[rank] = made.get();
          return made;
        },
        n.received, n.pool);
  }

  void meet() {
    a->add_peer(1, b->address());
    b->add_peer(0, a->address());
    // Until both have heard that their memory is mapped.
    ASSERT_TRUE(run([&] { return lends(a) && lends(b); }));
  }

  static bool lends(lender& n) {
    const auto all = n->routes();
    return all.size() == 1 && all[0].lanes.find("lent") != std::string::npos;
  }

  template <class Done>
  bool run(Done done) {
    return run_until(done, 30s, a, b);
  }

  incoming_message next(lender& n) {
    EXPECT_TRUE(run([&] { return !n.received.messages.empty(); }));
    if (n.received.messages.empty()) return {};
    auto out = std::move(n.received.messages.front());
    n.received.messages.erase(n.received.messages.begin());
    return out;
  }

  void send(lender& from, rank_t to, outgoing_payload&& payload, std::uint64_t order = 0) {
    std::vector<outgoing_payload> payloads;
    payloads.push_back(std::move(payload));
    from->send(to, order, patterned_frame(40, 1), std::move(payloads));
  }

  job_secret secret;
  const bool apart;
  std::uint64_t most_lent = 0;
  std::shared_ptr<loopback_network> network = std::make_shared<loopback_network>();
  std::array<sink*, 3> inner_sinks{};
  std::array<failing*, 3> inner{};
  lender a;
  lender b;
};

}  // namespace troupe::transport::lending::test
