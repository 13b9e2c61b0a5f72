// Collectives by messages by every algorithm, beside the reference.

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <tuple>

#include "tests/actors/groups/collective_conformance.hpp"
#include "tests/actors/groups/group_testing.hpp"
#include "tests/actors/groups/network_groups.hpp"

namespace troupe::test {
namespace {

// Small pieces, so that there are many, and an odd number of elements. Sums of what `values_of` has
// are exact in any order.
constexpr std::int64_t many = 5'003;

void check_exact_reductions(const process_group& group) {
  for (const auto op : {reduce_op::sum, reduce_op::min, reduce_op::bxor, reduce_op::avg})
    check_reductions(group, at::kInt, op, many);
  for (const auto op : {reduce_op::sum, reduce_op::max})
    check_reductions(group, at::kDouble, op, many);
  check_reductions(group, at::kBFloat16, reduce_op::sum, many);
}

void check_moves(const process_group& group) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kByte}) {
    check_broadcast(group, dtype, many);
    check_gathers(group, dtype, many);
    check_all_to_all(group, dtype, many);
  }
}

void check_algorithms(int size, const std::string& rules, bool reduces) {
  SCOPED_TRACE(rules);
  local_group all(
      size, ruled("network", rules + ",network.piece=4096,network.window=0,network.any_order=1"));
  all.run([&](const process_group& group, int) {
    if (reduces)
      check_exact_reductions(group);
    else
      check_moves(group);
  });
}

TEST(network_algorithms, reduce_right_by_each) {
  for (const auto* by : {"doubling", "halving", "ring", "direct"})
    for (const int size : {2, 3, 5, 8})
      check_algorithms(size, std::string("network.all_reduce:") + by + ">=0", true);
}

TEST(network_algorithms, move_right_by_each) {
  for (const auto* rules :
       {"network.broadcast:tree>=0,network.all_gather:bruck>=0,network.all_to_all:bruck>=0",
        "network.broadcast:scatter>=0,network.all_gather:ring>=0,network.all_to_all:direct>=0",
        "network.broadcast:chain>=0,network.all_gather:doubling>=0"})
    for (const int size : {2, 3, 5, 8}) check_algorithms(size, rules, false);
}

// Memory that cannot be written: whoever tries dies of SIGSEGV.
TEST(network_algorithms, only_read_the_tensor_of_a_broadcasts_root) {
  constexpr std::size_t bytes = 1 << 20;
  for (const auto* by : {"tree", "scatter", "chain"})
    for (const int size : {2, 3, 4, 5}) {
      SCOPED_TRACE(std::string(by) + ", " + std::to_string(size) + " ranks");
      void* const memory =
          ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      ASSERT_NE(memory, MAP_FAILED);
      std::memset(memory, 7, bytes);
      ASSERT_EQ(::mprotect(memory, bytes, PROT_READ), 0);
      local_group all(size, ruled("network", std::string("network.broadcast:") + by +
                                                 ">=0,network.piece=65536"));
      const int root = size / 2;
      all.run([&](const process_group& group, int rank) {
        const auto x =
            rank == root ? at::from_blob(
                               memory, {static_cast<std::int64_t>(bytes)}, [](void*) {}, at::kByte)
                         : at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
        broadcast(group, x, root);
        EXPECT_TRUE(same_bits(x, at::full({static_cast<std::int64_t>(bytes)}, 7, at::kByte)));
      });
      ::munmap(memory, bytes);
    }
}

// How many messages all ranks send for a collective, beside those of the entry. The nodes' own
// (pings, credits) fall into some rounds: the fewest of several have none.
std::uint64_t messages_of(int size, const std::string& backend, const std::string& rules,
                          const std::function<void(const process_group&)>& body) {
  local_group all(
      size,
      ruled(backend, "network.entry=1,network.alpha=1000000,network.rate=1000000000," + rules));
  const auto sent = [&] {
    std::uint64_t out = 0;
    for (auto& one : all.nodes) out += one.debug_info().traffic.messages_sent;
    return out;
  };
  all.run([](const process_group& group, int) { barrier(group); });
  auto fewest = ~std::uint64_t{0};
  for (int round = 0; round < 4; ++round) {
    const auto before = sent();
    all.run([&](const process_group& group, int) { body(group); });
    fewest = std::min(fewest, sent() - before);
  }
  return fewest - static_cast<std::uint64_t>(size * (size - 1));
}

// On eight ranks, each message a piece; parts are so large that `direct` waits for receipts.
TEST(network_algorithms, are_those_that_rules_name) {
  constexpr int size = 8;
  constexpr std::int64_t part = 128 * 1024;
  const auto run = [](const std::string& what, const process_group& group) {
    const auto small = at::ones({part}, at::kByte), all = at::ones({size * part}, at::kByte);
    std::vector<at::Tensor> parts, places;
    for (int i = 0; i < size; ++i) {
      parts.push_back(small.clone());
      places.push_back(small.clone());
    }
    if (what == "all_reduce") all_reduce(group, all);
    if (what == "broadcast") broadcast(group, all, 1);
    if (what == "all_gather") all_gather_into_tensor(group, all, small);
    if (what == "reduce_scatter") reduce_scatter_tensor(group, small, all);
    if (what == "reduce_scatter list") reduce_scatter(group, small, parts);
    if (what == "all_to_all") all_to_all_single(group, all.clone(), all);
    if (what == "all_to_all list") all_to_all(group, places, parts);
  };
  for (const auto& [what, by, messages] :
       std::vector<std::tuple<std::string, std::string, std::uint64_t>>{
           {"all_reduce", "doubling", 24},
           {"all_reduce", "halving", 48},
           {"all_reduce", "ring", 112},
           {"all_reduce", "direct", 112},
           {"broadcast", "tree", 7},
           {"broadcast", "scatter", 56},
           {"broadcast", "chain", 21},
           {"all_gather", "bruck", 24},
           {"all_gather", "doubling", 24},
           {"all_gather", "ring", 56},
           {"all_gather", "direct", 112},
           {"reduce_scatter", "ring", 56},
           {"reduce_scatter", "direct", 112},
           {"reduce_scatter list", "ring", 56},
           {"all_to_all", "bruck", 24},
           {"all_to_all", "direct", 112},
           {"all_to_all list", "bruck", 24},
           {"all_to_all list", "direct", 112}}) {
    const auto rule = "network." + what.substr(0, what.find(' ')) + ":" + by + ">=0";
    EXPECT_EQ(
        messages_of(size, "network", rule, [&](const process_group& group) { run(what, group); }),
        messages)
        << what << " " << rule;
  }
  // Through hosts too.
  EXPECT_EQ(messages_of(size, "hosts", "network.hosts=2,network.broadcast:tree>=0",
                        [&](const process_group& group) { run("broadcast", group); }),
            7U);
}

TEST(network_algorithms, exchange_by_brucks_on_few_ranks_if_a_rule_says_so) {
  const auto run = [](const process_group& group) {
    const auto all = at::ones({3 * 10'000}, at::kByte);
    all_to_all_single(group, all.clone(), all);
  };
  EXPECT_EQ(messages_of(3, "network", "network.all_to_all:bruck>=0", run), 6U);
  EXPECT_EQ(messages_of(3, "network", "network.all_to_all:direct>=0", run), 6U);
  const auto four = [](const process_group& group) {
    const auto all = at::ones({4 * 10'000}, at::kByte);
    all_to_all_single(group, all.clone(), all);
  };
  EXPECT_EQ(messages_of(4, "network", "network.all_to_all:bruck>=0", four), 8U);
  EXPECT_EQ(messages_of(4, "network", "", four), 12U);
}

// Two pieces leave from each, and every other one when the root has taken one: so it has to keep no
// more than these.
TEST(network_algorithms, gather_as_the_root_grants) {
  constexpr int size = 4;
  constexpr std::uint64_t pieces = 64, ahead = 2, receipts = 1;
  const auto run = [](const process_group& group) {
    const auto mine = at::full({pieces * 4096}, group.rank(), at::kByte);
    std::vector<at::Tensor> all;
    for (int i = 0; i < size && group.rank() == 2; ++i) all.push_back(at::empty_like(mine));
    gather(group, mine, all, 2);
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_TRUE(same_bits(all[i], at::full_like(mine, static_cast<int>(i))));
  };
  EXPECT_EQ(messages_of(size, "network", "network.piece=4096,network.window=8192", run),
            (size - 1) * (pieces + pieces - ahead + receipts));
  EXPECT_EQ(messages_of(size, "network", "network.piece=4096,network.window=0", run),
            (size - 1) * (pieces + pieces - 1 + receipts));
}

// What is small leaves with the entry, on any number of ranks.
TEST(network_algorithms, exchange_small_parts_with_the_entry) {
  for (const int size : {2, 4, 6, 9})
    EXPECT_EQ(messages_of(size, "network", "",
                          [&](const process_group& group) {
                            const auto all = at::ones({size * 100}, at::kByte);
                            all_to_all_single(group, all.clone(), all);
                          }),
              0U)
        << size;
}

// Some ranks have small parts, others large ones, and the shares are equal on some alone.
TEST(network_algorithms, exchange_parts_that_differ) {
  local_group all(6, ruled("network", "network.all_to_all:bruck>=0"));
  all.run([](const process_group& group, int rank) {
    const auto count = [](int from, int to) -> std::int64_t {
      return from == 0 ? 10'000 : from == 1 ? 10 : 500 * to;
    };
    std::vector<std::int64_t> in, out;
    std::int64_t sent = 0, expected = 0;
    for (int other = 0; other < group.size(); ++other) {
      in.push_back(count(rank, other));
      out.push_back(count(other, rank));
      sent += in.back();
      expected += out.back();
    }
    const auto x = at::full({sent}, rank, at::kByte), y = at::full({expected}, 99, at::kByte);
    all_to_all_single(group, y, x, out, in);
    std::int64_t begin = 0;
    for (int from = 0; from < group.size(); ++from) {
      const auto size = out[static_cast<std::size_t>(from)];
      EXPECT_TRUE(same_bits(y.narrow(0, begin, size), at::full({size}, from, at::kByte)));
      begin += size;
    }
  });
}

// Of a rank that neither measures nor is measured.
TEST(network_algorithms, enter_by_brucks) {
  for (const int size : {2, 3, 6}) {
    local_group all(size, ruled("network", "network.entry=2"));
    all.run([](const process_group& group, int) {
      for (const std::int64_t count : {1, 900, 5'003}) {
        check_reductions(group, at::kFloat, reduce_op::sum, count);
        check_gathers(group, at::kLong, count);
        check_all_to_all(group, at::kInt, count);
      }
      check_coalesced(group);
    });
  }
}

// Whoever waits for an entry that another one passes on names the rank that is missing.
// What a failed rank does with its tensor afterwards reaches nobody whose collective succeeds.
TEST(network_algorithms, what_was_lent_arrives_as_it_was) {
  constexpr std::int64_t bytes = 96 << 20;
  // A tensor that is frozen, memory that cannot be, and a part of a tensor.
  for (const auto* kind : {"whole", "borrowed", "part"}) {
    SCOPED_TRACE(kind);
    std::vector<char> memory(static_cast<std::size_t>(bytes), 1);
    const auto whole = at::full({bytes + 64}, 1, at::kByte);
    const auto sent = kind == std::string("whole") ? at::full({bytes}, 1, at::kByte)
                      : kind == std::string("borrowed")
                          ? at::from_blob(memory.data(), {bytes}, at::kByte)
                          : whole.narrow(0, 64, bytes);
    auto nodes = make_nodes(network::tcp, rank_names(2));
    on_each(nodes, [&](const node& one, int rank) {
      const auto group = one.world().new_group({0, 1}, ruled("network", ""));
      const auto mine = rank == 1 ? sent : at::full({bytes}, 1, at::kByte);
      std::vector<at::Tensor> all;
      if (rank == 0)
        for (int i = 0; i < 2; ++i) all.push_back(at::empty({bytes}, at::kByte));
      barrier(group);
      std::thread aborts;
      if (rank == 1)
        aborts = std::thread([&group] {
          std::this_thread::sleep_for(std::chrono::milliseconds(15));
          group.abort();
        });
      try {
        gather(group, mine, all, 0);
        if (rank == 0) {
          EXPECT_TRUE(same_bits(all[1], at::full({bytes}, 1, at::kByte)));
        }
      } catch (const error&) {
        if (rank == 1) mine.fill_(2);
      }
      if (aborts.joinable()) aborts.join();
    });
    shut_down(nodes);
  }
}

}  // namespace
}  // namespace troupe::test
