// The UCX transport between two network namespaces, joined by a cable that can be cut: as between
// hosts. Needs to be root, and `ip` (iproute2).

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include "tests/transport/conformance/conformance_backend.hpp"
#include "tests/transport/conformance/peer_process.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

bool shell(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

class ucx_network : public testing::Test {
protected:
  // Once for all tests: UCX remembers a process' routes.
  static void SetUpTestSuite() {
    const std::string id = std::to_string(getpid() % 100'000);
    space = "trp" + id;
    here = "tra" + id;
    there = "trb" + id;
    const std::string subnet = "10.213." + std::to_string(getpid() % 250 + 1) + ".";
    made = geteuid() == 0 && shell("ip netns add " + space) &&
           shell("ip link add " + here + " type veth peer name " + there + " netns " + space) &&
           shell("ip addr add " + subnet + "1/24 dev " + here) &&
           shell("ip -n " + space + " addr add " + subnet + "2/24 dev " + there) &&
           shell("ip -n " + space + " link set lo up");
  }

  static void TearDownTestSuite() {
    shell("ip link del " + here);
    shell("ip netns del " + space);
  }

  void SetUp() override {
    if (!made) GTEST_SKIP() << "needs the right to make network namespaces";
    ASSERT_TRUE(shell("ip link set " + here + " up"));
    ASSERT_TRUE(shell("ip -n " + space + " link set " + there + " up"));
    setenv("TROUPE_TEST_NET_DEVICES", there.c_str(), 1);
  }

  void start(const std::string& mode) {
    other = std::make_unique<child>(tested_backend::ucx_between_hosts, mode,
                                    std::vector<std::string>{"ip", "netns", "exec", space});
    const auto address = other->address();
    setenv("TROUPE_TEST_NET_DEVICES", here.c_str(), 1);
    a.net =
        make_ucx_transport(options_of(tested_backend::ucx_between_hosts, 0), a.received, a.pool);
    a->add_peer(1, address);
    other->send_address(a->address());
    exchange_one();
  }

  void exchange_one() {
    a->send(1, 0, patterned_frame(8, 1));
    ASSERT_TRUE(run_until([&] { return !a.received.messages.empty(); }, 100s, a));
    a.received.messages.clear();
  }

  // Sleeps where it can; how long it took.
  std::chrono::milliseconds until_lost(std::chrono::milliseconds limit) {
    const auto start = std::chrono::steady_clock::now();
    const auto passed = [&] {
      return std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::steady_clock::now() - start);
    };
    while (a.received.lost.empty() && passed() < limit) {
      if (a->progress() > 0 || !a->arm()) continue;
      pollfd p{a->event_fd(), POLLIN, 0};
      poll(&p, 1, 100);
    }
    return passed();
  }

  void expect_out_of_reach() {
    ASSERT_EQ(a.received.lost.size(), 1u);
    EXPECT_EQ(a.received.lost[0].second.kind, loss_kind::broken);
    const auto& text = a.received.lost[0].second.text;
    const auto at = text.find("not reachable for ");
    ASSERT_NE(at, std::string::npos) << text;
    EXPECT_GE(std::stod(text.substr(at + 18)), 2) << text;
  }

  // With the usual options: a keep-alive of a second. The cable has just been cut. TCP alone would
  // take a quarter of an hour; a peer that gets a hundredth of a processor, since others compute
  // there, has needed more than a minute to do what takes it a second, most of it to end.
  void expect_noticed_at_both_ends() {
    constexpr auto noticed_within = 100s;
    const auto begin = std::chrono::steady_clock::now();
    const auto here_after = until_lost(noticed_within);
    EXPECT_LT(here_after, noticed_within);
    expect_out_of_reach();
    const auto there_after = other->lost_at(noticed_within) - begin;
    EXPECT_LT(there_after, noticed_within);
    EXPECT_EQ(other->wait(), 0);
    std::printf("noticed here after %ld ms, there after %ld ms\n", here_after.count(),
                static_cast<long>(there_after / 1ms));
  }

  static inline std::string space, here, there;
  static inline bool made = false;
  std::unique_ptr<child> other;
  node a;
};

TEST_F(ucx_network, uses_tcp_and_reports_why) {
  start("echo");
  const auto routes = a->routes();
  ASSERT_EQ(routes.size(), 1u);
  EXPECT_EQ(routes[0].lanes, "tcp/" + here);
  EXPECT_NE(routes[0].reason.find("network namespace"), std::string::npos) << routes[0].reason;
  for (const std::size_t size : {0ul, 100ul, 8192ul, 20'000ul, 1ul << 20, 16ul << 20}) {
    SCOPED_TRACE(size);
    std::vector<outgoing_payload> payloads;
    payloads.push_back(patterned_payload(size, size));
    a->send(1, 0, patterned_frame(100, 1), std::move(payloads));
    ASSERT_TRUE(run_until([&] { return !a.received.messages.empty(); }, 100s, a));
    const auto m = std::move(a.received.messages.front());
    a.received.messages.clear();
    ASSERT_EQ(m.payloads.at(0).size, size);
    EXPECT_TRUE(has_pattern(m.payloads[0].data.get(), size, size));
  }
}

TEST_F(ucx_network, shared_memory_alone_cannot_reach_there) {
  other = std::make_unique<child>(tested_backend::ucx_between_hosts, "echo",
                                  std::vector<std::string>{"ip", "netns", "exec", space});
  a.net = make_ucx_transport(options_of(tested_backend::ucx_shared_memory, 0), a.received, a.pool);
  EXPECT_THROW(a->add_peer(1, other->address()), transport_error);
}

TEST_F(ucx_network, a_kill_is_noticed) {
  start("echo");
  other->kill(SIGKILL);
  EXPECT_LT(until_lost(60s), 30s);
  EXPECT_EQ(a.received.lost.size(), 1u);
  EXPECT_NE(a.received.lost[0].second.text.find("no process answers"), std::string::npos)
      << a.received.lost[0].second.text;
}

TEST_F(ucx_network, a_cut_cable_is_noticed_at_both_ends_while_idle) {
  start("echo");
  ASSERT_TRUE(shell("ip link set " + here + " down"));
  expect_noticed_at_both_ends();
}

TEST_F(ucx_network, a_cut_cable_is_noticed_at_both_ends_with_payloads_under_way) {
  start("echo");
  auto bytes = std::make_shared<std::vector<std::byte>>(64 << 20);
  for (int i = 0; i < 4; ++i) {
    std::vector<outgoing_payload> payloads;
    payloads.push_back({bytes->data(), bytes->size(), {}, bytes});
    a->send(1, 0, patterned_frame(8, 1), std::move(payloads));
  }
  // Both ways are busy.
  ASSERT_TRUE(run_until([&] { return !a.received.messages.empty(); }, 100s, a));
  ASSERT_TRUE(shell("ip -n " + space + " link set " + there + " down"));
  expect_noticed_at_both_ends();
  EXPECT_TRUE(run_until([&] { return a->idle(); }, 100s, a));
  a->progress();
  EXPECT_EQ(bytes.use_count(), 1);
}

TEST_F(ucx_network, a_cable_that_is_mended_in_time_loses_nothing) {
  start("echo");
  constexpr std::size_t count = 300;
  std::size_t sent = 0;
  const auto send_some = [&](std::size_t n) {
    for (; n > 0 && sent < count; --n, ++sent) {
      std::vector<outgoing_payload> payloads;
      if (sent % 10 == 0) payloads.push_back(patterned_payload(1 << 20, sent));
      a->send(1, 7, frame(std::as_bytes(std::span(&sent, 1))), std::move(payloads));
    }
  };
  send_some(100);
  ASSERT_TRUE(run_until([&] { return a.received.messages.size() > 10; }, 100s, a));
  ASSERT_TRUE(shell("ip link set " + here + " down"));
  const auto cut = std::chrono::steady_clock::now();
  ASSERT_TRUE(run_until(
      [&] {
        send_some(1);
        return std::chrono::steady_clock::now() - cut > 500ms;
      },
      100s, a));
  ASSERT_TRUE(shell("ip link set " + here + " up"));
  send_some(count);
  ASSERT_TRUE(run_until([&] { return a.received.messages.size() == count; }, 100s, a));
  std::set<std::size_t> seen;  // the echo does not keep the order of its answers' payloads
  for (const auto& m : a.received.messages) {
    std::size_t number = 0;
    std::memcpy(&number, m.envelope.data(), sizeof number);
    EXPECT_TRUE(seen.insert(number).second);
    for (const auto& p : m.payloads) EXPECT_TRUE(has_pattern(p.data.get(), p.size, number));
  }
  run_until([] { return false; }, 2s, a);
  EXPECT_TRUE(a.received.lost.empty());
}

TEST_F(ucx_network, a_slow_cable_is_no_broken_one) {
  ASSERT_TRUE(
      shell("tc qdisc add dev " + here + " root tbf rate 20mbit burst 32kbit latency 100ms"));
  start("echo");
  std::vector<outgoing_payload> payloads;
  payloads.push_back(patterned_payload(10 << 20, 3));
  const auto begin = std::chrono::steady_clock::now();
  a->send(1, 0, patterned_frame(8, 1), std::move(payloads));
  EXPECT_TRUE(run_until([&] { return !a.received.messages.empty(); }, 100s, a));
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 3s);  // it was slow
  EXPECT_TRUE(a.received.lost.empty());
  ASSERT_EQ(a.received.messages.size(), 1u);
  EXPECT_TRUE(has_pattern(a.received.messages[0].payloads.at(0).data.get(), 10 << 20, 3));
  shell("tc qdisc del dev " + here + " root");
}

}  // namespace
}  // namespace troupe::transport::test
