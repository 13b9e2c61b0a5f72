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
#include "tests/transport/tcp/tcp_hostile.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/system/descriptors.hpp"
#include "troupe/transport/tcp/handshake.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

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
  // Closes the next connections at once.
  void refuse(int many) { refuse_ = many; }
  int refuses() const { return refuse_; }

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
        if (refuse_ > 0)
          --refuse_;
        else if (auto there = connect_to(to_, deadline); there.fd)
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
  std::atomic<int> refuse_{0};
  std::jthread thread_;
};

// A stream for payloads that fails leaves the messages alone, and is tried again.
TEST_F(tcp_hostile, refused_streams_for_payloads_hold_up_no_message) {
  const troupe::test::log_lines lines(spdlog::level::info);
  auto a = make(options_of(0)), b = make(options_of(1));
  // b calls a, and a makes its streams for payloads through somebody else.
  auto of_b = tcp::decode((*b)->address(), secret);
  meddler between(of_b.places.at(0).where);
  of_b.places = {{between.where()}};
  (*b)->add_peer(0, (*a)->address());
  (*b)->send(0, 0, patterned_frame(8, 1));
  run_until([] { return false; }, 20ms, *b);
  (*a)->add_peer(1, tcp::encode(of_b, secret));
  ASSERT_TRUE(run_until([&] { return !a->received.messages.empty(); }, limit, *a, *b));
  between.refuse(8);
  (*a)->send(1, 0, patterned_frame(8, 2), {patterned_payload(100'000, 3)});
  ASSERT_TRUE(run_until([&] { return between.refuses() < 6; }, limit, *a, *b));
  (*a)->send(1, 0, patterned_frame(8, 4));
  ASSERT_TRUE(run_until([&] { return !b->received.messages.empty(); }, limit, *a, *b));
  EXPECT_TRUE(b->received.messages[0].payloads.empty());
  ASSERT_TRUE(run_until([&] { return b->received.messages.size() == 2; }, limit, *a, *b));
  EXPECT_EQ(between.refuses(), 0);
  EXPECT_TRUE(has_pattern(b->received.messages[1].payloads.at(0).data.get(), 100'000, 3));
  EXPECT_EQ(lines.with("is restored"), 0);
}

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
