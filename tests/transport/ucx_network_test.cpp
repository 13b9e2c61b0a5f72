// The UCX transport between two network namespaces, joined by a cable that can be cut: as between
// hosts. Needs to be root, and `ip` (iproute2).

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "messages/error.hpp"
#include "tests/transport/conformance_backend.hpp"
#include "tests/transport/ucx_child.hpp"

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
    other = std::make_unique<child>(backend::ucx_between_hosts, mode,
                                    std::vector<std::string>{"ip", "netns", "exec", space});
    const auto address = other->address();
    setenv("TROUPE_TEST_NET_DEVICES", here.c_str(), 1);
    a.net = make_ucx_transport(options_of(backend::ucx_between_hosts, 0), a.heard, a.pool);
    a->add_peer(1, address);
    other->tell(a->address());
    exchange_one();
  }

  void exchange_one() {
    a->send(1, 0, patterned_frame(8, 1));
    ASSERT_TRUE(run_until([&] { return !a.heard.messages.empty(); }, 10s, a));
    a.heard.messages.clear();
  }

  // Sleeps where it can; how long it took.
  std::chrono::milliseconds until_lost(std::chrono::milliseconds limit) {
    const auto start = std::chrono::steady_clock::now();
    const auto passed = [&] {
      return std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::steady_clock::now() - start);
    };
    while (a.heard.lost.empty() && passed() < limit) {
      if (a->progress() > 0 || !a->arm()) continue;
      pollfd p{a->event_fd(), POLLIN, 0};
      poll(&p, 1, 100);
    }
    return passed();
  }

  static inline std::string space, here, there;
  static inline bool made = false;
  std::unique_ptr<child> other;
  node a;
};

TEST_F(ucx_network, uses_tcp_and_says_why) {
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
    ASSERT_TRUE(run_until([&] { return !a.heard.messages.empty(); }, 20s, a));
    const auto m = std::move(a.heard.messages.front());
    a.heard.messages.clear();
    ASSERT_EQ(m.payloads.at(0).size, size);
    EXPECT_TRUE(has_pattern(m.payloads[0].data.get(), size, size));
  }
}

TEST_F(ucx_network, shared_memory_alone_cannot_reach_there) {
  other = std::make_unique<child>(backend::ucx_between_hosts, "echo",
                                  std::vector<std::string>{"ip", "netns", "exec", space});
  a.net = make_ucx_transport(options_of(backend::ucx_shared_memory, 0), a.heard, a.pool);
  EXPECT_THROW(a->add_peer(1, other->address()), transport_error);
}

TEST_F(ucx_network, a_kill_is_noticed) {
  start("echo");
  other->kill(SIGKILL);
  EXPECT_LT(until_lost(10s), 5s);
  EXPECT_EQ(a.heard.lost.size(), 1u);
}

TEST_F(ucx_network, a_cut_cable_is_noticed_while_idle) {
  start("echo");
  ASSERT_TRUE(shell("ip link set " + here + " down"));
  EXPECT_LT(until_lost(20s), 12s);
  EXPECT_EQ(a.heard.lost.size(), 1u);
}

TEST_F(ucx_network, a_cut_cable_is_noticed_with_payloads_under_way) {
  start("echo");
  auto bytes = std::make_shared<std::vector<std::byte>>(64 << 20);
  std::vector<outgoing_payload> payloads;
  payloads.push_back({bytes->data(), bytes->size(), {}, bytes});
  a->send(1, 0, patterned_frame(8, 1), std::move(payloads));
  ASSERT_TRUE(shell("ip -n " + space + " link set " + there + " down"));
  EXPECT_LT(until_lost(20s), 12s);
  EXPECT_EQ(a.heard.lost.size(), 1u);
  EXPECT_TRUE(run_until([&] { return a->idle(); }, 5s, a));
  a->progress();
  EXPECT_EQ(bytes.use_count(), 1);
}

}  // namespace
}  // namespace troupe::transport::test
