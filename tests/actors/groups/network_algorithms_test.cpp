// Collectives by messages by every algorithm, and through hosts, beside the reference.

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>
#include <tuple>

#include "tests/actors/groups/collective_conformance.hpp"
#include "tests/actors/groups/group_testing.hpp"
#include "troupe/actors/groups/network/agreed_ways.hpp"
#include "troupe/actors/groups/network/entry.hpp"
#include "troupe/messages/codec/encoder.hpp"

namespace troupe::test {
namespace {

group_options ruled(const std::string& backend, const std::string& rules) {
  return {.timeout = std::chrono::seconds(60),
          .backend = "cpu:" + backend,
          .backend_options = {{"collectives", rules}}};
}

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

TEST(network_algorithms, that_differ_between_ranks_are_errors) {
  const auto x = at::ones({10'000});
  groups::operation what;
  what.kind = groups::operation_kind::broadcast;
  what.dtype = at::kFloat;
  what.outputs = std::span(&x, 1);
  std::vector<groups::network::entry> entries(3, groups::network::entry_of(what, 3));
  const groups::operation_place here{"pair", 0, what.kind, 1};
  EXPECT_NO_THROW(check_entries(here, entries));
  entries[0].way = "chain in 3 pieces";
  entries[1].way = entries[0].way;
  entries[2] = groups::network::read_entry(write_entry(entries[2]).bytes());
  const auto text = thrown_text<collective_mismatch>([&] { check_entries(here, entries); });
  EXPECT_NE(text.find("rank 0 goes by chain in 3 pieces, rank 2 by direct"), std::string::npos)
      << text;
}

// Of a rank that neither measures nor is measured.
TEST(network_algorithms, refuse_figures_that_no_link_has) {
  struct fake final : groups::member_exchange {
    std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte>) override {
      std::vector<std::vector<std::byte>> out;
      if (asked++ > 0) {
        const double both[] = {alpha, beta};
        const auto bytes = std::as_bytes(std::span(both));
        out.assign(3, {bytes.begin(), bytes.end()});
        return out;
      }
      for (const auto* host : {"a", "b", "c"}) {
        encoder one(nullptr, nullptr);
        one.put(std::string(host));
        one.put(std::string());
        one.put(false);
        const std::span<const std::byte> bytes = one.bytes();
        out.emplace_back(bytes.begin(), bytes.end());
      }
      return out;
    }
    double alpha = 0, beta = 0;
    int asked = 0;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [alpha, beta] : std::vector<std::pair<double, double>>{
           {nan, 1e-9}, {1e-6, nan}, {infinity, 1e-9}, {1e-6, 0}, {-1e-6, 1e-9}}) {
    fake exchange;
    exchange.alpha = alpha;
    exchange.beta = beta;
    groups::backend_request request;
    request.rank = 2;
    request.members.resize(3);
    request.timeout = std::chrono::seconds(1);
    request.exchange = &exchange;
    EXPECT_THROW(groups::network::agree_on_places(request), decode_error) << alpha << " " << beta;
  }
}

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

TEST(network_algorithms, disagreements_that_others_pass_on_are_errors_on_all_ranks) {
  auto nodes = local_nodes(rank_names(3));
  on_each(nodes, [&](const node& one, int rank) {
    check_disagreements(
        [&] {
          return one.world().new_group({0, 1, 2}, ruled("network", "network.entry=2"));
        },
        rank);
  });
}

// Whoever waits for an entry that another one passes on names the rank that is missing.
TEST(network_algorithms, name_who_does_not_enter) {
  auto options = ruled("network", "network.entry=2");
  options.timeout = std::chrono::milliseconds(1500);
  local_group all(5, options);
  all.run([](const process_group& group, int rank) {
    all_reduce(group, at::ones({3}));
    if (rank == 3) return std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    const auto text = thrown_text<error>([&] { all_reduce(group, at::ones({3})); });
    EXPECT_NE(text.find("rank 3 is missing"), std::string::npos) << text;
  });
}

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

TEST(network_algorithms, wrong_rules_are_refused) {
  for (const auto* rules :
       {"network.all_reduce:tree>=0", "network.gather:ring>=0", "network.all_reduce:ring",
        "network.rate=0", "network.speed=1", "network.piece=100", "network.alpha=fast"}) {
    EXPECT_THROW(
        {
          auto nodes = local_nodes(rank_names(2));
          on_each(nodes, [&](const node& one, int) {
            all_reduce(one.world().new_group({0, 1}, ruled("network", rules)), at::ones({3}));
          });
        },
        error)
        << rules;
  }
}

class hosts_collectives : public testing::TestWithParam<std::pair<int, int>> {};

// All that goes through hosts, with many stripes; in the order of the ranks, so bits are compared.
TEST_P(hosts_collectives, give_the_same_bits) {
  const auto [size, hosts] = GetParam();
  local_group all(size,
                  ruled("hosts", "network.piece=16384,network.hosts=" + std::to_string(hosts)));
  all.run([](const process_group& group, int) {
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kInt})
      for (const auto op : {reduce_op::sum, reduce_op::min, reduce_op::avg})
        check_reductions(group, dtype, op, 70'001);
    check_reductions(group, at::kDouble, reduce_op::premul_sum, 40'001);
    check_reductions(group, at::kInt, reduce_op::bxor, 20'001);
    check_broadcast(group, at::kFloat, 70'001);
    check_gathers(group, at::kFloat, 70'001);
    check_coalesced(group);
    check_in_place(group);
  });
}

// Numbers whose sum depends on the order.
TEST_P(hosts_collectives, combine_in_the_order_of_the_ranks) {
  const auto [size, hosts] = GetParam();
  const auto rules = "network.piece=16384,network.hosts=" + std::to_string(hosts);
  std::vector<at::Tensor> inputs;
  for (int rank = 0; rank < size; ++rank) {
    auto x = at::empty({50'000});
    auto* values = x.mutable_data_ptr<float>();
    for (int i = 0; i < 50'000; ++i)
      values[i] = 1.0F / static_cast<float>(1 + (i * 7919 + rank * 104'729) % 10'007);
    inputs.push_back(x);
  }
  for (const auto op : {reduce_op::sum, reduce_op::product, reduce_op::avg}) {
    std::vector<at::Tensor> results(inputs.size()), expected(inputs.size());
    local_group by_hosts(size, ruled("hosts", rules)), by_messages(size, ruled("network", ""));
    by_hosts.run([&](const process_group& group, int rank) {
      results[static_cast<std::size_t>(rank)] = inputs[static_cast<std::size_t>(rank)].clone();
      all_reduce(group, results[static_cast<std::size_t>(rank)], op);
    });
    by_messages.run([&](const process_group& group, int rank) {
      expected[static_cast<std::size_t>(rank)] = inputs[static_cast<std::size_t>(rank)].clone();
      all_reduce(group, expected[static_cast<std::size_t>(rank)], op);
    });
    for (std::size_t rank = 0; rank < results.size(); ++rank)
      EXPECT_TRUE(same_bits(results[rank], expected[0])) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(grids, hosts_collectives,
                         testing::Values(std::pair(4, 2), std::pair(6, 3), std::pair(6, 2)));

}  // namespace
}  // namespace troupe::test
