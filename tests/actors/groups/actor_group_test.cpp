// Groups of actors: several ranks in one process, and on several nodes.

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <numeric>

#include "tests/actors/groups/collective_conformance.hpp"
#include "tests/actors/groups/group_actors.hpp"
#include "tests/actors/groups/group_testing.hpp"

namespace troupe::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// So many on each of the nodes, one node after the other.
std::vector<group_actor> spawn_members(const std::vector<node>& nodes,
                                       const std::vector<int>& counts) {
  std::vector<group_actor> out;
  for (std::size_t i = 0; i < counts.size(); ++i)
    for (int k = 0; k < counts[i]; ++k)
      out.push_back(nodes[0].spawn_on<be_a_member>(static_cast<std::uint32_t>(i)));
  return out;
}

std::vector<int> all_ranks(const process_group& group) {
  std::vector<int> out(static_cast<std::size_t>(group.size()));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST(actor_group, has_its_members_in_the_order_given) {
  auto nodes = local_nodes(rank_names(2));
  auto members = spawn_members(nodes, {2, 2});
  std::swap(members[0], members[3]);
  const auto team = make_team(nodes[0], members, {.description = "four"});
  EXPECT_EQ(team.name(), "actors of w0#0");
  EXPECT_EQ(team.size(), 4);
  on_members(members, [](const process_group& group) {
    EXPECT_EQ(group.size(), 4);
    EXPECT_EQ(group.name(), "actors of w0#0");
    EXPECT_EQ(group.description(), "four");
    EXPECT_EQ(group.backend(), "troupe");
    EXPECT_EQ(group.timeout(), 30min);
    EXPECT_EQ(group.ranks(), (std::vector<std::uint32_t>{1, 0, 1, 0}));
    EXPECT_EQ(group.global_rank(2), 1u);
    EXPECT_THAT(thrown_text<invalid_argument>([&] { group.group_rank(1); }),
                HasSubstr("Global rank 1 has several ranks in group actors of w0#0"));
  });
  expect_sums(members);
  EXPECT_EQ(actor_group(nodes[0], members).name(), "actors of w0#1");
}

class actor_groups : public testing::TestWithParam<std::tuple<std::string, std::vector<int>>> {};

TEST_P(actor_groups, do_what_every_group_does) {
  const auto& [backend, counts] = GetParam();
  auto nodes = local_nodes(rank_names(static_cast<int>(counts.size())));
  const auto members = spawn_members(nodes, counts);
  const auto team = make_team(nodes[0], members, {.backend = backend});
  on_members(members, [](const process_group& group) {
    check_broadcast(group, at::kFloat, 70'000);
    check_gathers(group, at::kFloat, 5'003);
    check_all_to_all(group, at::kInt, 13);
    check_reductions(group, at::kFloat, reduce_op::sum, 70'000);
    check_coalesced(group);
    check_shapes(group);
    check_in_place(group);
    check_disagreements([&] { return group.new_group(all_ranks(group)); }, group.rank());
    monitored_barrier(group);
    barrier(group);
  });
  shut_down(nodes);
}

INSTANTIATE_TEST_SUITE_P(backends, actor_groups,
                         testing::Combine(testing::Values("cpu:troupe", "cpu:network"),
                                          testing::Values(std::vector{3}, std::vector{2, 1},
                                                          std::vector{1, 2, 1})));

TEST(actor_group, sends_messages_and_objects_within_a_node) {
  auto nodes = local_nodes(rank_names(1));
  const auto members = spawn_members(nodes, {2});
  const auto team = make_team(nodes[0], members);
  on_members(members, [](const process_group& group) {
    const auto other = 1 - group.rank();
    const auto x = at::full({100'000}, group.rank(), at::kFloat);
    const auto y = at::full({100'000}, -1, at::kFloat);
    auto sent = isend(group, x, other);
    EXPECT_EQ(recv(group, y, other), other);
    sent.wait();
    EXPECT_EQ(y[99'999].item<int>(), other);
    EXPECT_EQ(all_gather_object(group, std::string(group.rank() == 0 ? "a" : "b")),
              (std::vector<std::string>{"a", "b"}));
  });
}

TEST(actor_group, makes_groups_of_its_own_ranks) {
  auto nodes = local_nodes(rank_names(2));
  const auto members = spawn_members(nodes, {2, 2});
  const auto team = make_team(nodes[0], members);
  on_members(members, [](const process_group& group) {
    const auto rank = group.rank();
    const auto half = group.split(rank % 2, -rank);
    EXPECT_EQ(half.size(), 2);
    EXPECT_EQ(half.rank(), rank < 2 ? 1 : 0);
    const auto x = at::full({1}, rank, at::kInt);
    all_reduce(half, x);
    EXPECT_EQ(x.item<int>(), rank % 2 == 0 ? 2 : 4);
    const auto some = group.new_group({3, 0, 1});
    EXPECT_EQ(some.is_member(), rank != 2);
    EXPECT_EQ(some.rank(), rank == 2 ? -1 : (rank + 1) % 4);
    if (some.is_member()) barrier(some);
    if (rank == 2) return;
    const auto left = group.shrink({2});
    EXPECT_EQ(left.size(), 3);
    const auto y = at::full({1}, 1, at::kInt);
    all_reduce(left, y);
    EXPECT_EQ(y.item<int>(), 3);
  });
}

TEST(actor_group, is_made_again_and_again) {
  auto nodes = local_nodes(rank_names(2));
  const auto members = spawn_members(nodes, {2, 1});
  for (int i = 0; i < 20; ++i) {
    const auto team = make_team(nodes[0], members);
    expect_sums(members, i % 2 == 0 ? 1 : 20'000);
    if (i % 3 == 0) when_all(members, drop_group{}).get();
  }
}

// 64 groups of two members, of one node or of two, that are asked for sums: all first members
// before any second one.
template <class Sum>
std::vector<future<float>> ask_many_groups(const std::vector<node>& nodes,
                                           const group_options& how) {
  std::vector<std::vector<group_actor>> teams;
  for (int i = 0; i < 64; ++i) {
    teams.push_back(spawn_members(nodes, i % 2 == 0 ? std::vector{2} : std::vector{1, 1}));
    make_team(nodes[0], teams.back(), how);
  }
  std::vector<future<float>> out;
  for (const std::size_t rank : {0u, 1u})
    for (const auto& members : teams) out.push_back(request(members[rank], Sum{100, 1}));
  return out;
}

TEST(actor_group, awaits_in_many_groups_with_few_threads) {
  const auto nodes = local_nodes(rank_names(2), {.max_threads = 4});
  for (auto& one : ask_many_groups<sum_awaiting>(nodes, {})) EXPECT_EQ(one.get(), 2);
}

TEST(actor_group, blocks_in_many_groups_with_few_threads_or_errs) {
  const auto nodes = local_nodes(rank_names(2), {.max_threads = 4});
  for (auto& one : ask_many_groups<sum_blocking>(nodes, {.timeout = 200ms})) {
    try {
      EXPECT_EQ(one.get(), 2);
    } catch (const error& e) {
      EXPECT_THAT(e.what(), HasSubstr("group 'actors of w0#"));
    }
  }
}

// Until all but one have begun their operation number `sequence`.
void wait_for_sequence(std::vector<group_actor> members, std::size_t but, std::uint64_t sequence) {
  members.erase(members.begin() + static_cast<std::ptrdiff_t>(but));
  EXPECT_TRUE(eventually([&] {
    std::atomic<bool> all{true};
    on_members(members, [&](const process_group& group) {
      if (group.sequence_number() < sequence) all = false;
    });
    return all.load();
  }));
}

TEST(actor_group, names_an_actor_that_ends) {
  auto nodes = local_nodes(rank_names(2));
  auto members = spawn_members(nodes, {2, 2});
  auto team = make_team(nodes[0], members);
  expect_sums(members);
  for (const std::size_t dead : {1u, 2u}) {
    std::vector<future<std::string>> ends;
    for (std::size_t i = 0; i < members.size(); ++i)
      if (i != dead) ends.push_back(request(members[i], sum_until_error{}));
    wait_for_sequence(members, dead, 2);
    EXPECT_THROW(request(members[dead], throw_this{"broken"}).get(), remote_error);
    const auto text = "rank " + std::to_string(dead) + " of group '" + team.name() + "', actor " +
                      std::to_string(members[dead].id()) + " on w" + (dead == 1 ? "0" : "1") +
                      ", has ended: broken";
    for (auto& one : ends)
      EXPECT_THAT(one.get(), AllOf(StartsWith("actor down: "), HasSubstr(text)));
    // The survivors go on.
    members.erase(members.begin() + static_cast<std::ptrdiff_t>(dead));
    team = make_team(nodes[0], members);
    expect_sums(members);
  }
}

TEST(actor_group, names_an_actor_that_ended_before) {
  auto nodes = local_nodes(rank_names(2));
  const auto members = spawn_members(nodes, {1, 2});
  EXPECT_THROW(request(members[2], throw_this{"early"}).get(), remote_error);
  const actor_group team(nodes[0], members);
  for (const std::size_t i : {0u, 1u}) EXPECT_EQ(request(members[i], enter_group{team}).get(), i);
  for (const std::size_t i : {0u, 1u})
    EXPECT_THAT(request(members[i], sum_until_error{}).get(), HasSubstr("rank 2 of group"));
}

TEST(actor_group, is_carried_out_in_a_simulation) {
  simulation cluster({.seed = 5});
  const auto nodes = cluster.start(2);
  cluster
      .spawn([&] {
        const auto members = spawn_members(nodes, {2, 1});
        make_team(nodes[0], members);
        expect_sums(members, 100);
        auto end = request(members[0], sum_until_error{});
        cluster.crash(1);
        EXPECT_THAT(end.get(), HasSubstr("rank 2 of group"));
      })
      .get();
}

TEST(actor_group, keeps_no_actor_alive) {
  auto nodes = local_nodes(rank_names(2));
  auto members = spawn_members(nodes, {1, 1});
  make_team(nodes[0], members);
  expect_sums(members);
  auto end = request(members[0], sum_until_error{});
  members.pop_back();
  EXPECT_THAT(end.get(), HasSubstr("on w1, has ended"));
}

TEST(actor_group, refuses_members_that_cannot_be) {
  auto nodes = local_nodes(rank_names(2));
  auto members = spawn_members(nodes, {1, 1});
  const auto refused = [&](const std::vector<group_actor>& some, const group_options& how = {}) {
    return thrown_text<invalid_argument>([&] { actor_group(nodes[0], some, how); });
  };
  EXPECT_THAT(refused({}), HasSubstr("cannot be empty"));
  EXPECT_THAT(refused({members[0], group_actor()}), HasSubstr("member 1 of a group of actors is a "
                                                              "handle that names no actor"));
  EXPECT_THAT(refused({members[1], members[1]}), HasSubstr("member 1 was there before"));
  EXPECT_THAT(refused({nodes[1].spawn(be_a_member)}), HasSubstr("handle of another node"));
  EXPECT_THAT(refused(members, {.timeout = -1s}), HasSubstr("is negative"));
  EXPECT_THAT(refused(members, {.backend = "gloo"}), HasSubstr("Unknown c10d backend type GLOO"));
  const auto team = make_team(nodes[0], members);
  const auto third = nodes[0].spawn(be_a_member);
  const auto entering = [&](const group_actor& who, const actor_group& what) {
    return fault_of<invalid_argument>([&] { request(who, enter_group{what}).get(); }).text;
  };
  EXPECT_THAT(entering(third, team), HasSubstr("on w0 is no member of group 'actors of w0#"));
  EXPECT_THAT(entering(members[0], team), HasSubstr("rank 0 is in group 'actors of w0#"));
}

TEST(actor_group, times_out_by_name) {
  auto nodes = local_nodes(rank_names(1));
  const auto members = spawn_members(nodes, {3});
  make_team(nodes[0], members, {.timeout = 200ms});
  EXPECT_THAT(request(members[0], sum_until_error{}).get(),
              AllOf(StartsWith("rpc timeout: "), HasSubstr("ranks 1 and 2 missing")));
}

}  // namespace
}  // namespace troupe::test
