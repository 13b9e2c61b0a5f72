#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/transport/conformance/conformance_node.hpp"
#include "troupe/messages/base/random.hpp"
#include "troupe/transport/lending/lending_transport.hpp"
#include "troupe/transport/memory/arena.hpp"
#include "troupe/transport/virtual/virtual_network.hpp"

namespace troupe::transport::lending::test {

using ::troupe::transport::test::counting_pool;
using ::troupe::transport::test::has_pattern;
using ::troupe::transport::test::pattern;
using ::troupe::transport::test::take_all;

/// Nodes that lend one another memory at random, over a network that loses, doubles, delays and
/// reorders what they send; some crash, and come back. Each has an arena of its own, as if it were
/// a process of its own, so that descriptors, loans and their ends really travel. What happens
/// follows from the seed alone.
///
/// Every byte says which payload it belongs to. It is looked at when it arrives and when it is
/// dropped: memory that was let go too early has been used again by then, and written to.
class random_loans {
public:
  struct settings {
    std::uint64_t seed = 1;
    rank_t nodes = 3;
    int steps = 300;
    bool faults = true;
  };

  explicit random_loans(const settings& how)
      : how_(how),
        random_(splitmix64(how.seed)),
        net_(std::make_shared<virtual_network>(network())) {
    for (rank_t rank = 0; rank < how_.nodes; ++rank) begin(rank);
    for (rank_t rank = 0; rank < how_.nodes; ++rank)
      for (rank_t other = 0; other < how_.nodes; ++other)
        if (other != rank) at(rank).net->add_peer(other, at(other).net->address());
    pass_time(std::chrono::milliseconds(5));
  }

  /// Lets things happen, then ends what is held. Problems are reported to GoogleTest.
  void run() {
    for (int i = 0; i < how_.steps && !testing::Test::HasFailure(); ++i) step();
    net_->heal();
    net_->set_links({});
    for (int i = 0; i < 20; ++i) {
      for (auto& [rank, n] : nodes_) {
        take_messages(*n);
        while (!n->held.empty()) drop(*n, n->held.size() - 1);
      }
      pass_time(std::chrono::seconds(1));
    }
    for (auto& [rank, n] : nodes_) {
      const auto all = n->net->count();
      EXPECT_EQ(all.lent, 0u) << "by rank " << rank;
      EXPECT_EQ(all.borrowed, 0u) << "by rank " << rank;
    }
    // Those of nodes that have crashed, too.
    for (const auto& memory : memories_) EXPECT_EQ(memory->count().in_use, 0u);
  }

  std::uint64_t sent = 0, received = 0, lent = 0, crashes = 0;
  std::uint64_t came_home = 0;  ///< to their owner's own memory
  std::uint64_t passed_on = 0;  ///< to a third node, read where they were made
  std::uint64_t copied_on = 0;  ///< to a third node, from a copy
  std::uint64_t handed = 0;     ///< over, so that the receiver may write
  std::uint64_t written = 0;    ///< by the one that it was handed to

private:
  // What an envelope says of a payload: its bytes from `first` on, and where they were made.
  struct label {
    std::uint64_t of = 0, first = 0, size = 0;
    std::uint64_t maker = 0;   // an index of `memories_`
    std::uint64_t offset = 0;  // there
  };

  // Bytes that a node has, its own or another one's.
  struct piece : label {
    std::shared_ptr<const void> keep;
    const std::byte* data = nullptr;
    bool alone = false;  // nobody else has them, so that this node may write
  };

  // Knows all that it has ever handed out.
  struct knowing_pool final : counting_pool {
    std::set<const std::byte*> all;
    std::shared_ptr<std::byte> allocate(std::size_t size, memory_place place) override {
      auto out = counting_pool::allocate(size, place);
      all.insert(out.get());
      return out;
    }
  };

  struct member final : sink {
    rank_t rank = 0;
    std::size_t number = 0;  // of `memory`, in `memories_`
    arena* memory = nullptr;
    knowing_pool pool;
    std::map<std::uint64_t, const std::byte*> mapped;  // other makers' memories here
    std::vector<incoming_message> messages;
    std::vector<piece> held;
    std::set<rank_t> lost;
    std::unique_ptr<transport> net;

    void on_message(incoming_message&& message) override { messages.push_back(std::move(message)); }
    void on_peer_lost(rank_t peer, peer_loss) override { lost.insert(peer); }
  };

  virtual_network_options network() const {
    virtual_network_options out;
    out.seed = how_.seed;
    if (!how_.faults) return out;
    out.links.loss = 0.05;
    out.links.duplication = 0.1;
    out.links.reordering = 0.3;
    return out;
  }

  member& at(rank_t rank) { return *nodes_.at(rank); }
  std::uint64_t below(std::uint64_t limit) { return random_.next() % limit; }

  void begin(rank_t rank) {
    std::string why_not;
    arena_options small;
    small.limit = std::size_t{64} << 20;
    small.housekeeping = false;
    auto memory = arena::make(small, why_not);
    ASSERT_TRUE(memory) << why_not;
    auto n = std::make_unique<member>();
    n->rank = rank;
    n->number = memories_.size();
    n->memory = memory.get();
    memories_.push_back(std::move(memory));
    lending_options options;
    options.rank = rank;
    options.secret = secret_;
    options.memory = n->memory;
    options.apart = true;
    n->net = make_lending_transport(
        options,
        [&](sink& to, payload_pool& pool) { return make_virtual_transport(net_, rank, to, pool); },
        *n, n->pool);
    nodes_[rank] = std::move(n);
  }

  void step() {
    auto& n = at(static_cast<rank_t>(below(how_.nodes)));
    const auto what = below(100);
    if (what < 45)
      send(n);
    else if (what < 50)
      write_any(n);
    else if (what < 65)
      drop_any(n);
    else if (what < 98 || !how_.faults)
      pass_time(std::chrono::microseconds(below(200)));
    else if (what == 98)
      pass_time(std::chrono::milliseconds(below(50)));
    else if (below(4) == 0)
      crash_and_return(n.rank);
    for (auto& [rank, one] : nodes_) take_messages(*one);
  }

  piece make_piece(member& n) {
    static constexpr std::size_t sizes[] = {1 << 10, 16 << 10, 40 << 10, 64 << 10, 300 << 10};
    piece out;
    out.size = sizes[below(std::size(sizes))];
    out.of = ++last_payload_;
    auto block = n.memory->allocate(out.size);
    auto* const bytes = static_cast<std::byte*>(block.get());
    for (std::size_t i = 0; i < out.size; ++i) bytes[i] = pattern(out.of, i);
    out.data = bytes;
    out.maker = n.number;
    out.offset = n.memory->offset_of(bytes);
    out.keep = std::make_shared<c10::DataPtr>(std::move(block));
    out.alone = true;
    return out;
  }

  // All of it, which the node has no longer.
  outgoing_payload payload_of_given(piece&& from, std::vector<label>& labels) {
    labels.push_back(from);
    outgoing_payload out;
    out.data = from.data;
    out.size = from.size;
    out.keep = std::move(from.keep);
    out.freeze = [](const outgoing_payload& p) { return p.keep; };
    out.take = &take_all;
    return out;
  }

  // All of it, or a part.
  outgoing_payload payload_of(piece& from, std::vector<label>& labels) {
    from.alone = false;
    std::uint64_t skip = 0, size = from.size;
    if (below(3) == 0 && from.size >= 64) {
      skip = below(from.size / 2) / 16 * 16;
      size = from.size - skip - below(16);
    }
    labels.push_back({from.of, from.first + skip, size, from.maker, from.offset + skip});
    outgoing_payload out;
    out.data = from.data + skip;
    out.size = size;
    out.keep = from.keep;
    out.freeze = [](const outgoing_payload& p) { return p.keep; };
    return out;
  }

  void send(member& n) {
    const auto to = static_cast<rank_t>(below(how_.nodes));
    if (to == n.rank || n.lost.contains(to)) return;
    std::vector<outgoing_payload> payloads;
    std::vector<label> labels;
    for (auto count = below(3) + 1; count > 0; --count) {
      if (!n.held.empty() && below(2) == 0) {
        const auto which = below(n.held.size());
        if (n.held[which].alone && below(2) == 0) {
          payloads.push_back(payload_of_given(std::move(n.held[which]), labels));
          n.held.erase(n.held.begin() + static_cast<std::ptrdiff_t>(which));
        } else {
          payloads.push_back(payload_of(n.held[which], labels));
        }
        continue;
      }
      auto fresh = make_piece(n);
      if (below(2) == 0) {
        payloads.push_back(payload_of_given(std::move(fresh), labels));
        continue;
      }
      payloads.push_back(payload_of(fresh, labels));
      if (below(2) == 0) n.held.push_back(std::move(fresh));
    }
    frame envelope(labels.size() * sizeof(label));
    std::memcpy(envelope.data(), labels.data(), labels.size() * sizeof(label));
    envelope.resize(labels.size() * sizeof(label));
    try {
      n.net->send(to, below(3), std::move(envelope), std::move(payloads));
      ++sent;
    } catch (const peer_lost&) {  // which its sink will hear of
    }
  }

  void take_messages(member& n) {
    for (auto& message : std::exchange(n.messages, {})) {
      ++received;
      std::vector<label> labels(message.payloads.size());
      ASSERT_EQ(message.envelope.size(), labels.size() * sizeof(label));
      std::memcpy(labels.data(), message.envelope.data(), message.envelope.size());
      for (std::size_t i = 0; i < labels.size(); ++i) {
        auto& came = message.payloads[i];
        piece one{labels[i], nullptr, came.data.get()};
        one.keep = std::move(came.data);
        ASSERT_EQ(came.size, one.size);
        if (came.read_only)
          count(n, message.from, one);
        else if (!n.pool.all.contains(one.data))
          ++handed;
        one.alone = !came.read_only;
        check(n, one, "when it came");
        n.held.push_back(std::move(one));
      }
    }
  }

  void count(member& n, rank_t from, const piece& one) {
    ++lent;
    const auto* const start = one.data - one.offset;
    if (one.maker == n.number)
      came_home += n.memory->at(one.offset) == one.data ? 1 : 0;
    else if (nodes_.contains(from) && at(from).number == one.maker)
      n.mapped[one.maker] = start;
    else if (const auto known = n.mapped.find(one.maker); known != n.mapped.end())
      ++(known->second == start ? passed_on : copied_on);
  }

  void check(const member& n, const piece& one, const char* when) {
    for (std::uint64_t i = 0; i < one.size; ++i)
      if (one.data[i] != pattern(one.of, one.first + i)) {
        ADD_FAILURE() << "byte " << i << " of " << one.size << " of payload " << one.of
                      << " is another one at rank " << n.rank << " " << when << ", seed "
                      << how_.seed;
        return;
      }
  }

  void drop(member& n, std::size_t which) {
    check(n, n.held[which], "before it was dropped");
    n.held.erase(n.held.begin() + static_cast<std::ptrdiff_t>(which));
  }

  // Other bytes, by a node that alone has them.
  void write_any(member& n) {
    if (n.held.empty()) return;
    auto& one = n.held[below(n.held.size())];
    if (!one.alone) return;
    check(n, one, "before it was written to");
    one.of = ++last_payload_;
    one.first = 0;
    auto* const bytes = const_cast<std::byte*>(one.data);
    for (std::uint64_t i = 0; i < one.size; ++i) bytes[i] = pattern(one.of, i);
    ++written;
  }

  void drop_any(member& n) {
    if (!n.held.empty()) drop(n, below(n.held.size()));
  }

  void crash_and_return(rank_t rank) {
    ++crashes;
    net_->crash(rank);
    {
      auto& n = at(rank);
      for (const auto& one : n.held) check(n, one, "when it crashed");
      n.held.clear();
      n.messages.clear();
      n.net.reset();
    }
    nodes_.erase(rank);
    const auto all_know = [&] {
      for (auto& [other, n] : nodes_)
        if (!n->lost.contains(rank)) return false;
      return true;
    };
    for (int i = 0; i < 1000 && !all_know(); ++i) pass_time(std::chrono::milliseconds(10));
    ASSERT_TRUE(all_know());
    begin(rank);
    for (auto& [other, n] : nodes_) {
      if (other == rank) continue;
      n->net->add_peer(rank, at(rank).net->address());
      at(rank).net->add_peer(other, n->net->address());
      n->lost.erase(rank);
    }
  }

  void pass_time(std::chrono::nanoseconds time) {
    const auto end = net_->now() + time;
    for (;;) {
      for (auto& [rank, n] : nodes_) {
        if (!n->net) continue;
        n->net->progress();
        if (below(8) == 0) n->net->arm();
      }
      if (net_->next() > end) break;
      net_->advance(net_->next());
    }
    net_->advance(end);
    for (auto& [rank, n] : nodes_)
      if (n->net && n->net->arm()) n->net->progress();
  }

  const settings how_;
  random_source random_;
  job_secret secret_;
  std::shared_ptr<virtual_network> net_;
  std::vector<std::unique_ptr<arena>> memories_;  // outlive what is in them
  std::map<rank_t, std::unique_ptr<member>> nodes_;
  std::uint64_t last_payload_ = 0;
};

}  // namespace troupe::transport::lending::test
