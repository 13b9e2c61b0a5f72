#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tests/transport/lending/lending_fixture.hpp"

namespace troupe::transport::lending::test {

inline constexpr std::size_t size_passed = std::size_t{1} << 20;

/// Three nodes, as if each had a process of its own: b is lent by a, and passes on to c.
struct passing_test : lending_test {
  passing_test() : lending_test(true) {
    begin(c, 2);
    for (auto* const other : {&a, &b}) {
      (*other)->add_peer(2, c->address());
      c->add_peer(other == &a ? 0 : 1, (*other)->address());
    }
    EXPECT_TRUE(all([&] { return lends_to(a, 2) && lends_to(b, 2) && lends_to(c, 2); }));
    settle();
  }

  // Is everybody lent to?
  static bool lends_to(lender& n, std::size_t count) {
    const auto routes = n->routes();
    return routes.size() == count && std::ranges::all_of(routes, [](const auto& one) {
             return one.lanes.find("lent") != std::string::npos;
           });
  }

  template <class Done>
  bool all(Done done) {
    const auto poll = [](lender& n) {
      if (n.net) n->progress();
    };
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (!done()) {
      poll(a);
      poll(b);
      poll(c);
      if (std::chrono::steady_clock::now() > end) return done();
    }
    return true;
  }

  // Until everybody has been told what there is.
  void settle() {
    int polls = 0;
    all([&] { return ++polls > 1000; });
  }

  incoming_message take(lender& n) {
    EXPECT_TRUE(all([&] { return !n.received.messages.empty(); }));
    if (n.received.messages.empty()) return {};
    auto out = std::move(n.received.messages.front());
    n.received.messages.erase(n.received.messages.begin());
    return out;
  }

  static outgoing_payload again(const incoming_message& got) {
    outgoing_payload out;
    out.data = got.payloads.at(0).data.get();
    out.size = got.payloads.at(0).size;
    out.keep = got.payloads.at(0).data;
    out.freeze = [](const outgoing_payload& p) { return p.keep; };
    return out;
  }

  // From a to b, and on to c.
  void pass() {
    auto made = a.payload(size_passed, 3);
    offset = a.memory->offset_of(made.data);
    send(a, 1, std::move(made));
    at_b = take(b);
    send(b, 2, again(at_b));
    at_c = take(c);
    ASSERT_EQ(at_c.payloads.size(), 1u);
    EXPECT_TRUE(at_c.payloads[0].read_only);
    EXPECT_TRUE(has_pattern(bytes(at_c), size_passed, 3));
  }

  static const std::byte* bytes(const incoming_message& got) {
    return got.payloads.at(0).data.get();
  }

  // As the kernel's word that b's process has ended.
  void b_ends() {
    at_b = {};
    inner_sinks[0]->on_peer_lost(1, {loss_kind::ended, "its process has ended"});
    inner_sinks[2]->on_peer_lost(1, {loss_kind::ended, "its process has ended"});
  }

  lender c;
  incoming_message at_b, at_c;
  std::uint64_t offset = 0;  // in a's memory
};

}  // namespace troupe::transport::lending::test
