// Strangers at the port of a node, and between two nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <random>
#include <thread>

#include "tests/log_lines.hpp"
#include "tests/transport/conformance/conformance_node.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/system/descriptors.hpp"
#include "troupe/transport/system/socket.hpp"
#include "troupe/transport/tcp/address.hpp"
#include "troupe/transport/tcp/handshake.hpp"
#include "troupe/transport/tcp/stream.hpp"
#include "troupe/transport/tcp/tcp_transport.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;
constexpr std::chrono::seconds limit{100};

class tcp_hostile : public testing::Test {
protected:
  tcp_options options_of(rank_t rank, stream_protection how = stream_protection::authenticate) {
    tcp_options o;
    o.rank = rank;
    o.secret = secret;
    o.interfaces = {"lo"};
    o.protection = how;
    return o;
  }
  std::unique_ptr<node> make(const tcp_options& options) {
    auto n = std::make_unique<node>();
    n->net = make_tcp_transport(options, n->received, n->pool);
    return n;
  }
  void connect(node& a, node& b) {
    a->add_peer(1, b->address());
    b->add_peer(0, a->address());
  }
  bool exchange(node& a, node& b) {
    a.received.messages.clear();
    b.received.messages.clear();
    a->send(1, 0, patterned_frame(8, 1));
    b->send(0, 0, patterned_frame(8, 2));
    return run_until([&] { return !a.received.messages.empty() && !b.received.messages.empty(); },
                     limit, a, b);
  }
  // A connection to a node, as anybody can make one.
  unique_fd call(node& to, std::size_t place = 0) {
    const auto where = tcp::decode(to->address(), secret);
    return std::move(
        connect_to(where.places.at(place).where, std::chrono::steady_clock::now() + limit).fd);
  }

  const job_secret secret;
};

// Has the node closed it? Progresses the node meanwhile.
bool is_closed(const unique_fd& one, node& at) {
  return run_until(
      [&] {
        char any;
        const auto n = ::recv(one.get(), &any, 1, MSG_DONTWAIT);
        return n == 0 || (n < 0 && errno != EAGAIN);
      },
      limit, at);
}

TEST_F(tcp_hostile, who_sends_garbage_is_cut_off_and_counted) {
  auto a = make(options_of(0)), b = make(options_of(1));
  connect(*a, *b);
  ASSERT_TRUE(exchange(*a, *b));
  std::mt19937 random(3);
  for (int i = 0; i < 50; ++i) {
    const auto stranger = call(*a);
    ASSERT_TRUE(stranger);
    std::vector<std::byte> garbage(sizeof(tcp::handshake::hello) + random() % 200);
    for (auto& byte : garbage) byte = static_cast<std::byte>(random());
    ::send(stranger.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    EXPECT_TRUE(is_closed(stranger, *a));
  }
  EXPECT_EQ((*a)->count().strangers, 50u);
  EXPECT_TRUE(exchange(*a, *b));
  EXPECT_TRUE(a->received.lost.empty());
}

TEST_F(tcp_hostile, silent_connections_neither_pile_up_nor_hinder_a_member) {
  auto a = make(options_of(0));
  const auto before = descriptors().open;
  std::vector<unique_fd> silent;
  for (int i = 0; i < 1500; ++i) {
    silent.push_back(call(*a));
    ASSERT_TRUE(silent.back());
    if (i % 8 == 7) (*a)->progress();
  }
  run_until([] { return false; }, 50ms, *a);
  EXPECT_LT(descriptors().open, before + silent.size() + 300) << "the node's share";
  auto b = make(options_of(1));
  connect(*a, *b);
  EXPECT_TRUE(exchange(*a, *b));
  // Those that are left go too, and nothing has been sent to any.
  EXPECT_TRUE(run_until([&] { return (*a)->count().strangers == 1500; }, limit, *a));
  for (const auto& one : silent) {
    char any;
    EXPECT_LE(::recv(one.get(), &any, 1, MSG_DONTWAIT), 0);
  }
}

// Strangers that come as fast as they can: each third of them is silent, sends what makes no sense,
// or begins to send what a member would.
class flood {
public:
  static constexpr std::size_t most_held = 2'000;

  flood(const socket_address& where, unsigned many)
      : thread_([this, where, many](const std::stop_token& stop) {
          const std::vector<std::byte> garbage(300, std::byte{0x5a});
          std::deque<unique_fd> held;
          for (; made_ < many && !stop.stop_requested(); ++made_) {
            held.push_back(
                std::move(connect_to(where, std::chrono::steady_clock::now() + limit).fd));
            const std::size_t bytes_sent = made_ % 3 == 0   ? 0
                                           : made_ % 3 == 1 ? garbage.size()
                                                            : sizeof(tcp::handshake::hello) - 1;
            ::send(held.back().get(), garbage.data(), bytes_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (held.size() > most_held) held.pop_front();
            held_ = held.size();
          }
          over_ = true;
          while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
        }) {}

  unsigned made() const { return made_; }
  std::size_t held() const { return held_; }  // descriptors of its own
  bool over() const { return over_; }

private:
  std::atomic<unsigned> made_{0};
  std::atomic<std::size_t> held_{0};
  std::atomic<bool> over_{false};
  std::jthread thread_;
};

TEST_F(tcp_hostile, ten_thousand_connections_hinder_no_member) {
  constexpr unsigned many = 10'000;
  raise_descriptor_limit();
  if (descriptors().limit < flood::most_held + 1'000)
    GTEST_SKIP() << "this process may have " << descriptors().limit << " descriptors";
  auto a = make(options_of(0)), b = make(options_of(1)), c = make(options_of(2));
  connect(*a, *b);
  ASSERT_TRUE(exchange(*a, *b));
  const auto before = descriptors().open;
  const auto counted = (*a)->count().strangers;
  std::size_t most = 0;
  bool joined = false;
  flood strangers(tcp::decode((*a)->address(), secret).places.at(0).where, many);
  for (unsigned n = 0; !strangers.over(); ++n) {
    ASSERT_TRUE(exchange(*a, *b));
    if (n % 64 == 0 && strangers.held() == flood::most_held)
      most = std::max(most, descriptors().open - flood::most_held);
    if (joined || strangers.made() < many / 4) continue;
    joined = true;  // one more comes in the middle of it
    (*a)->add_peer(2, (*c)->address());
    (*c)->add_peer(0, (*a)->address());
    (*c)->send(0, 0, patterned_frame(8, 3));
    a->received.messages.clear();
    ASSERT_TRUE(run_until([&] { return !a->received.messages.empty(); }, limit, *a, *c));
    EXPECT_FALSE(strangers.over()) << "it came when all was over";
  }
  EXPECT_TRUE(joined);
  EXPECT_GT(most, 0u);
  EXPECT_LT(most, before + 350) << "the node's share";
  EXPECT_TRUE(run_until([&] { return (*a)->count().strangers >= counted + many; }, limit, *a));
  EXPECT_TRUE(a->received.lost.empty() && b->received.lost.empty() && c->received.lost.empty());
  EXPECT_TRUE(exchange(*a, *b));
}

TEST_F(tcp_hostile, another_job_is_refused) {
  auto a = make(options_of(0));
  auto theirs = options_of(1);
  theirs.secret = job_secret();
  auto b = make(theirs);
  EXPECT_THROW((*a)->add_peer(1, (*b)->address()), transport_error);
  EXPECT_THROW((*b)->add_peer(0, (*a)->address()), transport_error);
}

TEST_F(tcp_hostile, another_protection_is_refused_when_a_peer_is_added) {
  auto a = make(options_of(0)), b = make(options_of(1, stream_protection::encrypt));
  try {
    (*a)->add_peer(1, (*b)->address());
    ADD_FAILURE() << "it was added";
  } catch (const transport_error& e) {
    EXPECT_THAT(e.fault().text, testing::HasSubstr("protects its connections in another way"));
  }
}

// A hello that was recorded, sent by somebody else: there is an answer, and it cannot be answered.
TEST_F(tcp_hostile, a_replayed_hello_leads_nowhere) {
  auto a = make(options_of(0)), b = make(options_of(1));
  connect(*a, *b);
  ASSERT_TRUE(exchange(*a, *b));
  const auto of_a = tcp::decode((*a)->address(), secret),
             of_b = tcp::decode((*b)->address(), secret);
  tcp::handshake recorded(secret);
  tcp::stream_claim claim;
  claim.from = 1;
  claim.to = 0;
  claim.from_id = of_b.id;
  claim.to_id = of_a.id;
  claim.protection = stream_protection::authenticate;
  const auto hello = recorded.greet(claim);
  const auto stranger = call(*a);
  ASSERT_EQ(::send(stranger.get(), hello.data(), hello.size(), MSG_NOSIGNAL),
            ssize_t(hello.size()));
  std::array<std::byte, sizeof(tcp::handshake::challenge)> challenge;
  ASSERT_TRUE(run_until(
      [&] { return ::recv(stranger.get(), challenge.data(), challenge.size(), MSG_DONTWAIT) > 0; },
      limit, *a));
  const tcp::handshake::answer guess{};
  ::send(stranger.get(), guess.data(), guess.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(is_closed(stranger, *a));
  EXPECT_TRUE(exchange(*a, *b));
  EXPECT_TRUE(a->received.lost.empty() && b->received.lost.empty());
}

/// A node with the job's secret that breaks the protocol.
class rogue {
public:
  rogue(const job_secret& secret, node& victim)
      : secret_(secret), of_(tcp::decode(victim->address(), secret)) {
    random_bytes(id_);
    tcp::address own{1, id_, stream_protection::authenticate, 0, {}};
    listener_ = std::move(listen_on(loopback()).fd);
    own.places.push_back({local_address(listener_.get())});
    victim->add_peer(1, tcp::encode(own, secret));
  }

  // A connection that has proved itself.
  std::unique_ptr<tcp::stream> connect(tcp::stream_kind kind, node& victim) {
    auto fd =
        std::move(connect_to(of_.places.at(0).where, std::chrono::steady_clock::now() + limit).fd);
    tcp::handshake proof(secret_);
    const auto hello = proof.greet({1, 0, id_, of_.id, kind, stream_protection::authenticate});
    ::send(fd.get(), hello.data(), hello.size(), MSG_NOSIGNAL);
    tcp::handshake::challenge challenge;
    EXPECT_TRUE(run_until(
        [&] {
          return ::recv(fd.get(), challenge.data(), challenge.size(), MSG_DONTWAIT) ==
                 ssize_t(challenge.size());
        },
        limit, victim));
    tcp::handshake::answer answer;
    EXPECT_TRUE(proof.meet(challenge, answer));
    ::send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    return std::make_unique<tcp::stream>(std::move(fd), kind, tcp::stream::role::dialer,
                                         stream_protection::authenticate, proof.keys());
  }

private:
  static socket_address loopback() {
    socket_address out;
    auto& v4 = reinterpret_cast<sockaddr_in&>(out.storage);
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    out.length = sizeof v4;
    return out;
  }

  const job_secret secret_;
  const tcp::address of_;
  tcp::nonce id_;
  unique_fd listener_;
};

// Whoever has the secret and sends nonsense is lost, with a reason; nothing else comes of it.
TEST_F(tcp_hostile, a_member_that_sends_nonsense_is_lost) {
  using tcp::record_head;
  using tcp::record_kind;
  struct nonsense {
    const char* what;
    tcp::stream_kind kind;
    std::vector<record_head> heads;
  };
  const auto head = [](record_kind kind, std::uint32_t size, std::uint32_t attached,
                       std::uint64_t order = 0, std::uint64_t expected = 0,
                       std::uint32_t count = 0) {
    return record_head{.size = size,
                       .attached = attached,
                       .sequence = 0,
                       .order = order,
                       .expected = expected,
                       .count = count,
                       .kind = kind};
  };
  constexpr auto messages = tcp::stream_kind::messages, bulk = tcp::stream_kind::bulk;
  constexpr std::uint64_t mib = 1 << 20;
  constexpr std::uint32_t chunk = tcp::largest_chunk;
  const std::vector<nonsense> all{
      {"an unknown kind", messages, {head(static_cast<record_kind>(99), 0, 0)}},
      {"a second resume", messages, {head(record_kind::resume, 0, 0)}},
      {"an acknowledgement of what was never sent",
       messages,
       {head(record_kind::acknowledgement, 0, 0, 0, 7)}},
      {"a message that acknowledges that", messages, {head(record_kind::message, 8, 0, 0, 7)}},
      {"a chunk among messages", messages, {head(record_kind::chunk, 0, chunk, mib)}},
      {"a payload of another size", messages, {head(record_kind::payload, 8, 0, 9)}},
      {"a payload with too large an index",
       messages,
       {head(record_kind::payload, 8, 0, 8, 0, 1u << 20)}},
      {"a message on a bulk stream", bulk, {head(record_kind::message, 8, 0)}},
      {"a chunk of nothing", bulk, {head(record_kind::chunk, 0, 0, mib)}},
      {"a chunk larger than any", bulk, {head(record_kind::chunk, 0, 2 * chunk, mib)}},
      {"chunks that overlap",
       bulk,
       {head(record_kind::chunk, 0, tcp::chunk_unit, mib, tcp::chunk_unit),
        head(record_kind::chunk, 0, chunk, mib)}},
      {"a chunk outside of its payload", bulk, {head(record_kind::chunk, 0, chunk, mib, mib)}},
      {"a chunk far outside", bulk, {head(record_kind::chunk, 0, chunk, mib, ~0ull - 5)}},
      {"a chunk of another size", bulk, {head(record_kind::chunk, 0, 1000, mib)}},
      {"a chunk that begins elsewhere", bulk, {head(record_kind::chunk, 0, chunk, mib, 1000)}},
      {"a chunk twice",
       bulk,
       {head(record_kind::chunk, 0, chunk, mib), head(record_kind::chunk, 0, chunk, mib)}},
      {"chunks that differ on the payload's size",
       bulk,
       {head(record_kind::chunk, 0, chunk, mib),
        head(record_kind::chunk, 0, chunk, 2 * mib, chunk)}},
      {"a resume on a bulk stream", bulk, {head(record_kind::resume, 0, 0)}},
  };
  const auto bytes = std::make_shared<std::vector<std::byte>>(2 * chunk);
  for (const auto& one : all) {
    SCOPED_TRACE(one.what);
    auto a = make(options_of(0));
    {
      rogue b(secret, *a);
      auto first = b.connect(messages, *a);
      std::string why;
      first->add({head(record_kind::resume, 0, 0), nullptr, nullptr});
      ASSERT_TRUE(first->flush(why));
      run_until([] { return false; }, 2ms, *a);
      auto second = one.kind == bulk ? b.connect(bulk, *a) : nullptr;
      auto& by = second ? *second : *first;
      for (const auto& h : one.heads) by.add({h, bytes->data(), bytes});
      by.flush(why);
      ASSERT_TRUE(run_until(
          [&] {
            by.flush(why);
            return !a->received.lost.empty();
          },
          limit, *a));
      EXPECT_THAT(a->received.lost.at(0).second.text, testing::HasSubstr("malformed"));
      EXPECT_TRUE(a->received.messages.empty());
    }
    a->net.reset();
    EXPECT_EQ(a->pool.out(), 0);
  }
}

// Senders find a connection broken while others ask how things stand.
TEST_F(tcp_hostile, questions_while_a_peer_dies_are_answered) {
  for (int round = 0; round < 20; ++round) {
    auto a = make(options_of(0)), b = make(options_of(1));
    connect(*a, *b);
    ASSERT_TRUE(exchange(*a, *b));
    std::atomic<bool> over{false};
    std::jthread asking([&] {
      while (!over) {
        (*a)->idle();
        (*a)->routes();
        (*a)->delivered();
      }
    });
    std::jthread sending([&] {
      try {
        while (!over) (*a)->send(1, 0, patterned_frame(64, 1));
      } catch (const peer_lost&) {
      }
    });
    b->net.reset();
    EXPECT_TRUE(run_until([&] { return !a->received.lost.empty(); }, limit, *a));
    over = true;
  }
}

// Somebody between two nodes: passes bytes on in both directions, and alters one now and then.
class meddler {
public:
  // Listens, and connects what calls to `to`.
  explicit meddler(const socket_address& to) : to_(to) {
    socket_address any = to;
    reinterpret_cast<sockaddr_in&>(any.storage).sin_port = 0;
    listener_ = std::move(listen_on(any).fd);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  socket_address where() const { return local_address(listener_.get()); }
  void alter_next() { alter_ = true; }
  bool altered() const { return !alter_; }

private:
  void run(const std::stop_token& stop) {
    std::vector<std::pair<unique_fd, unique_fd>> pairs;
    std::vector<std::byte> buffer(64 * 1024);
    while (!stop.stop_requested()) {
      std::vector<pollfd> fds{{listener_.get(), POLLIN, 0}};
      for (const auto& [x, y] : pairs) {
        fds.push_back({x.get(), POLLIN, 0});
        fds.push_back({y.get(), POLLIN, 0});
      }
      ::poll(fds.data(), fds.size(), 5);
      const auto deadline = std::chrono::steady_clock::now() + limit;
      for (std::size_t i = 0; i < pairs.size();) {
        auto& [x, y] = pairs[i];
        if (pass(x, y, buffer) && pass(y, x, buffer))
          ++i;
        else
          pairs.erase(pairs.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
          fd >= 0) {
        unique_fd from(fd);
        if (auto there = connect_to(to_, deadline); there.fd)
          pairs.emplace_back(std::move(from), std::move(there.fd));
      }
    }
  }
  bool pass(const unique_fd& from, const unique_fd& to, std::vector<std::byte>& buffer) {
    const auto n = ::recv(from.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN;
    if (n > 40 && alter_.exchange(false)) buffer[static_cast<std::size_t>(n) / 2] ^= std::byte{1};
    return write_all(to.get(), std::span(buffer).first(static_cast<std::size_t>(n)),
                     std::chrono::steady_clock::now() + limit) == io_result::done;
  }

  const socket_address to_;
  unique_fd listener_;
  std::atomic<bool> alter_{false};
  std::jthread thread_;
};

// What was altered never arrives; the connection is made again, and nothing is missing or twice.
TEST_F(tcp_hostile, altered_bytes_end_a_connection_and_lose_nothing) {
  for (const auto how : {stream_protection::authenticate, stream_protection::encrypt}) {
    const troupe::test::log_lines lines(spdlog::level::info);
    auto a = make(options_of(0, how)), b = make(options_of(1, how));
    // b dials, since its rank is higher: to a, through somebody else.
    auto of_a = tcp::decode((*a)->address(), secret);
    meddler between(of_a.places.at(0).where);
    of_a.places = {{between.where()}};
    auto of_b = tcp::decode((*b)->address(), secret);
    (*b)->add_peer(0, tcp::encode(of_a, secret));
    (*a)->add_peer(1, tcp::encode(of_b, secret));
    ASSERT_TRUE(exchange(*a, *b));
    a->received.messages.clear();
    std::uint64_t sent = 0;
    for (int round = 0; round < 5; ++round) {
      between.alter_next();
      for (int i = 0; i < 200; ++i) {
        std::vector<outgoing_payload> payloads;
        if (i % 20 == 0) payloads.push_back(patterned_payload(100'000, sent));
        (*b)->send(0, 7, patterned_frame(100, sent++), std::move(payloads));
        (*a)->progress();
        (*b)->progress();
      }
      ASSERT_TRUE(run_until([&] { return a->received.messages.size() == sent; }, limit, *a, *b));
      EXPECT_TRUE(between.altered());
    }
    for (std::uint64_t i = 0; i < sent; ++i) {
      const auto& one = a->received.messages[i];
      ASSERT_TRUE(has_pattern(one.envelope.data(), 100, i)) << i;
      for (const auto& payload : one.payloads)
        ASSERT_TRUE(has_pattern(payload.data.get(), payload.size, i));
    }
    EXPECT_TRUE(a->received.lost.empty() && b->received.lost.empty());
    EXPECT_GE(lines.with("is restored, which broke: a record was altered on the way"), 1);
  }
}

}  // namespace
}  // namespace troupe::transport::test
