// A rank of a job whose actors are a group: actor_group_program RANK WORLD_SIZE FILE KILLS. Rank 0
// spawns two members on each rank and checks what they do; with KILLS = kill, the last rank's
// process ends in the middle of it. Exits with 0 if all was right.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/actors/groups/group_actors.hpp"
#include "tests/actors/groups/group_testing.hpp"

namespace {

using namespace troupe::test;

std::vector<group_actor> spawn_two_each(const troupe::node& node) {
  std::vector<group_actor> out;
  for (int k = 0; k < 2; ++k)
    for (std::uint32_t rank = 0; rank < node.world_size(); ++rank)
      out.push_back(node.spawn_on<be_a_member>(rank));
  return out;
}

void check_sums(const troupe::node& node) {
  const auto members = spawn_two_each(node);
  for (int i = 0; i < 3; ++i) {
    make_team(node, members, {.backend = i == 1 ? "cpu:network" : "cpu:troupe"});
    for (const std::int64_t elements : {1, 5'000, 300'000}) {
      expect_sums(members, elements);
      std::vector<troupe::future<float>> sums;
      for (const auto& one : members)
        sums.push_back(troupe::request(one, sum_blocking{elements, 1}));
      for (auto& one : sums) EXPECT_EQ(one.get(), static_cast<float>(members.size()));
    }
  }
}

void check_a_death(const troupe::node& node) {
  auto members = spawn_two_each(node);
  make_team(node, members);
  expect_sums(members);
  const auto last = static_cast<std::size_t>(node.world_size() - 1);
  const auto victim = members[last];
  std::vector<troupe::future<std::string>> ends;
  for (std::size_t i = 0; i < members.size(); ++i)
    if (i % node.world_size() != last)
      ends.push_back(troupe::request(members[i], sum_until_error{}));
  EXPECT_THROW(troupe::request(victim, throw_this{"the process"}).get(), troupe::peer_lost);
  for (auto& one : ends)
    EXPECT_THAT(one.get(), testing::HasSubstr("on worker" + std::to_string(last) +
                                              ", has ended: rank " + std::to_string(last)));
  std::erase_if(members, [&](const auto& one) { return one.node() == victim.node(); });
  make_team(node, members);
  expect_sums(members, 10'000);
}

}  // namespace

int main(int, char** argv) {
  try {
    troupe::rpc_options options;
    options.rank = std::stoi(argv[1]);
    options.world_size = std::stoi(argv[2]);
    options.init_method = std::string("file://") + argv[3];
    options.on_leader_loss = troupe::leader_loss::elect;
    const auto node = troupe::init_rpc(options);
    if (node.rank() == 0) {
      if (argv[4] == std::string("kill"))
        check_a_death(node);
      else
        check_sums(node);
    }
    node.shutdown(true, std::chrono::minutes(2));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %s: %s\n", argv[1], e.what());
    return 1;
  }
  return testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 2 : 0;
}
