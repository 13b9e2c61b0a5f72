// What ranks between hosts must agree on, and who is named where they do not.

#include <ATen/ops/ones.h>

#include <chrono>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "tests/actors/groups/collective_conformance.hpp"
#include "tests/actors/groups/group_testing.hpp"
#include "tests/actors/groups/network_groups.hpp"
#include "troupe/actors/groups/network/agreed_ways.hpp"
#include "troupe/actors/groups/network/entry.hpp"
#include "troupe/messages/codec/encoder.hpp"

namespace troupe::test {
namespace {

TEST(network_agreement, algorithms_that_differ_between_ranks_are_errors) {
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

TEST(network_agreement, figures_that_no_link_has_are_refused) {
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

TEST(network_agreement, disagreements_that_others_pass_on_are_errors_on_all_ranks) {
  auto nodes = local_nodes(rank_names(3));
  on_each(nodes, [&](const node& one, int rank) {
    check_disagreements(
        [&] {
          return one.world().new_group({0, 1, 2}, ruled("network", "network.entry=2"));
        },
        rank);
  });
}

TEST(network_agreement, who_does_not_enter_is_named) {
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

TEST(network_agreement, wrong_rules_are_refused) {
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

}  // namespace
}  // namespace troupe::test
