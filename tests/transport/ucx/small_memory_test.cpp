// Nodes on a host with little shared memory, as containers have: each test in a process of its own,
// which mounts a small /dev/shm that nobody else sees.

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iostream>

#include "tests/transport/conformance/conformance_backend.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/ucx/queue_shape.hpp"
#include "troupe/transport/ucx/worker.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;
using ucx::queue_room;
using ucx::queue_shapes;

constexpr std::uint64_t mebibyte = 1 << 20;

bool mount_shared_memory(std::uint64_t mebibytes) {
  const auto size = "size=" + std::to_string(mebibytes) + "m";
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", "/dev/shm", "tmpfs", 0, size.c_str()) == 0;
}

void use_all_descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

enum class outcome { good, bad, not_permitted, crashed };

outcome with_shared_memory(std::uint64_t mebibytes, const std::function<void()>& run) {
  std::cout.flush();
  const pid_t child = fork();
  if (child == 0) {
    if (!mount_shared_memory(mebibytes)) _exit(static_cast<int>(outcome::not_permitted));
    use_all_descriptors();
    try {
      run();
      _exit(static_cast<int>(outcome::good));
    } catch (const std::exception& e) {
      std::cerr << e.what() << std::endl;
      _exit(static_cast<int>(outcome::bad));
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? static_cast<outcome>(WEXITSTATUS(status)) : outcome::crashed;
}

#define EXPECT_GOOD(expression)                                                   \
  if (const auto how = (expression); how == outcome::not_permitted)               \
    GTEST_SKIP() << "this user may not mount a /dev/shm of its own (unshare -m)"; \
  else                                                                            \
    EXPECT_EQ(how, outcome::good)

void expect(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

std::uint64_t memory_used() {
  struct statvfs info {};
  statvfs("/dev/shm", &info);
  return std::uint64_t{info.f_blocks - info.f_bfree} * info.f_frsize;
}

// All in this process, each connected with all others.
class host {
public:
  explicit host(unsigned count, ucx_bulk bulk = ucx_bulk::automatic, void (*meanwhile)() = nullptr)
      : nodes(count) {
    for (rank_t rank = 0; rank < count; ++rank) {
      auto options = options_of(tested_backend::ucx, rank);
      options.host_peers = count - 1;
      options.speaks_for_host = rank == 0;
      options.bulk = bulk;
      nodes[rank].net = make_ucx_transport(options, nodes[rank].received, nodes[rank].pool);
    }
    if (meanwhile) meanwhile();
    std::vector<std::vector<std::byte>> addresses;
    for (auto& n : nodes) addresses.push_back(n->address());
    for (rank_t a = 0; a < count; ++a)
      for (rank_t b = 0; b < count; ++b)
        if (a != b) nodes[a]->add_peer(b, addresses[b]);
  }

  bool run(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!done() && std::chrono::steady_clock::now() < end)
      for (auto& n : nodes) n->progress();
    return done();
  }

  // Everybody sends to everybody what takes each of the ways.
  void talk() {
    const std::vector<std::size_t> sizes{0, 100, 3000, 20'000, 300'000, 2'000'000};
    for (auto& from : nodes)
      for (rank_t to = 0; to < nodes.size(); ++to) {
        if (&from == &nodes[to]) continue;
        from->send(to, 1, patterned_frame(3000, 1));
        std::vector<outgoing_payload> payloads;
        payloads.push_back(patterned_payload(sizes[to % sizes.size()], to));
        from->send(to, 1, patterned_frame(100, 2), std::move(payloads));
      }
    const auto wanted = 2 * (nodes.size() - 1);
    expect(run([&] {
             return std::ranges::all_of(
                 nodes, [&](const auto& n) { return n.received.messages.size() == wanted; });
           }),
           "messages are missing");
    for (rank_t rank = 0; rank < nodes.size(); ++rank)
      for (const auto& m : nodes[rank].received.messages)
        for (const auto& p : m.payloads)
          expect(has_pattern(p.data.get(), p.size, rank), "a payload is damaged");
  }

  std::vector<node> nodes;
};

TEST(small_memory, of_64_mb_does_for_16_nodes) {
  EXPECT_GOOD(with_shared_memory(64, [] {
    host all(16);
    all.talk();
    expect(memory_used() <= 48 * mebibyte, "they take more than their share");
  }));
}

TEST(small_memory, of_24_mb_does_for_8_nodes) {
  EXPECT_GOOD(with_shared_memory(24, [] { host(8).talk(); }));
}

TEST(small_memory, of_which_there_is_too_little_is_reported_with_what_is_needed) {
  EXPECT_GOOD(with_shared_memory(1, [] {
    try {
      host(8).talk();
    } catch (const transport_error& e) {
      const std::string text = e.what();
      for (const char* part : {"8 nodes on this host need", "MiB", "/dev/shm has 1.0 MiB free",
                               "--shm-size", "UCX_POSIX_DIR"})
        expect(text.find(part) != text.npos, std::string(part) + " is missing in: " + text);
      return;
    }
    throw std::runtime_error("eight nodes have started with 1 MB");
  }));
}

void fill_shared_memory() {
  const std::string fill = "dd if=/dev/zero of=/dev/shm/fill bs=16k 2>/dev/null; true";
  expect(std::system(fill.c_str()) == 0, "no dd");
}

// Somebody else takes it after the nodes have looked.
TEST(small_memory, that_runs_out_leaves_the_common_queues) {
  EXPECT_GOOD(with_shared_memory(8, [] {
    host two(2, ucx_bulk::automatic, &fill_shared_memory);
    two.talk();
    const auto route = two.nodes[0]->routes().at(0);
    expect(route.reason.find("shares a queue with others") != route.reason.npos, route.reason);
  }));
}

TEST(small_memory, that_runs_out_is_an_error_of_ours) {
  EXPECT_GOOD(with_shared_memory(2, [] {
    try {
      const ucx::worker one(options_of(tested_backend::ucx, 0), ucx::reach::all, queue_shapes[0]);
    } catch (const transport_error& e) {
      const std::string text = e.what();
      expect(text.find("/dev/shm has 2048 KiB free") != text.npos, text);
      return;
    }
    throw std::runtime_error("there is a queue without memory");
  }));
}

TEST(small_memory, that_the_dead_have_left_is_freed_when_a_node_starts) {
  EXPECT_GOOD(with_shared_memory(2, [] {
    const std::string leave =
        "dd if=/dev/zero of=/dev/shm/ucx_shm_posix_1f bs=16k 2>/dev/null; true";
    expect(std::system(leave.c_str()) == 0, "no dd");
    expect(memory_used() >= 2 * mebibyte - 65536, "nothing is left");
    host one(1);
    expect(access("/dev/shm/ucx_shm_posix_1f", F_OK) != 0, "it is still there");
  }));
}

// Those that are announced and not yet read keep no place in the queue.
TEST(small_memory, is_enough_for_any_number_of_payloads) {
  EXPECT_GOOD(with_shared_memory(8, [] {
    host two(2, ucx_bulk::cma);
    constexpr std::size_t many = 1000;
    const auto bytes = patterned_payload(80'000, 5);
    for (std::size_t i = 0; i < many; ++i) {
      std::vector<outgoing_payload> payloads;
      payloads.push_back({bytes.data, bytes.size, {}, bytes.keep});
      two.nodes[0]->send(1, 0, patterned_frame(8, i), std::move(payloads));
    }
    expect(two.run([&] { return two.nodes[1].received.messages.size() == many; }),
           "only " + std::to_string(two.nodes[1].received.messages.size()) + " have arrived");
  }));
}

TEST(queue_shapes, get_smaller) {
  for (std::size_t i = 1; i < queue_shapes.size(); ++i)
    EXPECT_LT(queue_shapes[i].memory(), queue_shapes[i - 1].memory());
}

TEST(queue_shapes, are_the_best_that_fit) {
  queue_room room{"/dev/shm", 0, 0, 64 * mebibyte * 3 / 4};
  const auto chosen = ucx::choose_shape(room, 15);
  ASSERT_LT(chosen, queue_shapes.size());
  EXPECT_LE(16 * ucx::memory_of_node(queue_shapes[chosen], 15), room.usable);
  ASSERT_GT(chosen, 0u);
  EXPECT_GT(16 * ucx::memory_of_node(queue_shapes[chosen - 1], 15), room.usable);
  EXPECT_EQ(ucx::choose_shape(room, 0), 0u);
  room.usable = 0;
  EXPECT_EQ(ucx::choose_shape(room, 0), queue_shapes.size());
}

}  // namespace
}  // namespace troupe::transport::test
