#include "troupe/actors/groups/schedules/network_ways.hpp"

#include <gtest/gtest.h>

#include "troupe/messages/base/error.hpp"

namespace troupe::groups {
namespace {

using schedules::algorithm;
using schedules::task;

network_ways ways_of(int ranks, const std::string& rules = "") {
  network_ways out(ranks);
  out.apply("network.alpha=30000,network.rate=1000000000");
  out.apply(rules);
  return out;
}

TEST(NetworkWays, OrderLeavesDirectAlone) {
  const auto ways = ways_of(16, "network.all_reduce:ring>=0");
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1} << 16, std::size_t{1} << 30}) {
    EXPECT_EQ(ways.choose(task::all_reduce, bytes, true), algorithm::direct);
    EXPECT_EQ(ways.choose(task::reduce_scatter, bytes, true), algorithm::direct);
    EXPECT_EQ(ways.choose(task::all_reduce, bytes, false), algorithm::ring);
  }
}

TEST(NetworkWays, TakeTheLeastTime) {
  const auto ways = ways_of(4);
  EXPECT_EQ(ways.choose(task::broadcast, 1024, false), algorithm::tree);
  EXPECT_EQ(ways.choose(task::broadcast, 64 << 20, false), algorithm::chain);
  EXPECT_EQ(ways_of(64).choose(task::all_to_all, 64, false), algorithm::bruck);
  EXPECT_EQ(ways_of(64).choose(task::all_to_all, 64 << 20, false), algorithm::direct);
  EXPECT_EQ(ways_of(256).choose(task::all_reduce, 1024, false), algorithm::doubling);
  for (const auto what : {task::all_reduce, task::all_gather, task::broadcast, task::all_to_all})
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{1} << 14, std::size_t{1} << 26})
      for (const int ranks : {2, 3, 4, 7, 32, 256}) {
        const auto all = ways_of(ranks);
        const auto best = all.choose(what, bytes, false);
        for (int i = 0; i < schedules::algorithms; ++i) {
          const auto other = static_cast<algorithm>(i);
          if (has(what, other, ranks)) {
            EXPECT_LE(all.seconds(what, best, bytes), all.seconds(what, other, bytes));
          }
        }
      }
}

TEST(NetworkWays, RulesHoldFromTheirBytesOn) {
  const auto ways =
      ways_of(8, "network.broadcast:tree>=0,all_reduce:box>=0,network.broadcast:scatter>=4096");
  EXPECT_EQ(ways.choose(task::broadcast, 4095, false), algorithm::tree);
  EXPECT_EQ(ways.choose(task::broadcast, 4096, false), algorithm::scatter);
  // What is not possible is replaced: doubling needs a power of two.
  const auto odd = ways_of(6, "network.all_gather:doubling>=0");
  EXPECT_NE(odd.choose(task::all_gather, 64, false), algorithm::doubling);
}

TEST(NetworkWays, FiguresOfRulesStay) {
  network_ways ways(4);
  EXPECT_FALSE(ways.link_is_given());
  ways.apply("network.alpha=9000");
  EXPECT_FALSE(ways.link_is_given());
  ways.set_link({1, 2, 3});
  EXPECT_DOUBLE_EQ(ways.over.alpha, 9e-6);
  EXPECT_DOUBLE_EQ(ways.over.beta, 2);
  ways.apply("network.rate=1000000");
  EXPECT_TRUE(ways.link_is_given());
}

TEST(NetworkWays, PiecesFollowFromTheRate) {
  network_ways ways(4);
  ways.set_link({30e-6, 1 / 125e6, 0});
  EXPECT_EQ(ways.piece, 256U << 10);
  EXPECT_EQ(ways.window, 1U << 20);
  ways.set_link({30e-6, 1 / 1250e6, 0});
  EXPECT_EQ(ways.piece, 1U << 20);
  EXPECT_EQ(ways.window, 2U << 20);
  ways.apply("network.piece=65536,network.window=4096");
  ways.set_link({30e-6, 1 / 125e6, 0});
  EXPECT_EQ(ways.piece, 65536U);
  EXPECT_EQ(ways.window, 4096U);
}

TEST(NetworkWays, TextCanBeGivenAgain) {
  const auto ways = ways_of(8,
                            "network.all_gather:ring>=100,network.piece=65536,network.any_order=1,"
                            "network.entry=2,network.hosts=4");
  network_ways again(8);
  again.apply(ways.text());
  EXPECT_EQ(again.text(), ways.text());
  EXPECT_EQ(again.explanation(), ways.explanation());
  EXPECT_FALSE(again.enters_directly());
  EXPECT_EQ(again.hosts, 4);
}

TEST(NetworkWays, EntriesOfFewRanksGoDirectly) {
  for (const int ranks : {1, 2, 4, 16}) EXPECT_TRUE(ways_of(ranks).enters_directly()) << ranks;
  for (const int ranks : {64, 1000}) EXPECT_FALSE(ways_of(ranks).enters_directly()) << ranks;
}

TEST(NetworkWays, WrongRulesSayWhatIsWrong) {
  const auto refusal = [](const std::string& rules) -> std::string {
    try {
      network_ways(4).apply(rules);
    } catch (const invalid_argument& e) {
      return e.what();
    }
    return "none";
  };
  for (const auto& [rules, text] : std::vector<std::pair<std::string, std::string>>{
           {"network.all_reduce:tree>=0", "cannot be carried out so"},
           {"network.gather:ring>=0", "no such operation"},
           {"network.broadcast:fast>=0", "no such algorithm"},
           {"network.broadcast:tree>=few", "no number"},
           {"network.broadcast:tree", "no ':' and '>='"},
           {"network.rate=0", "a rate is not 0"},
           {"network.piece=100", "multiple of 64"},
           {"network.hosts=9", "more hosts than ranks"},
           {"network.speed=9", "the numbers are"}})
    EXPECT_NE(refusal(rules).find(text), std::string::npos) << refusal(rules);
  EXPECT_EQ(refusal("all_reduce:box>=0,piece=1"), "none");
}

}  // namespace
}  // namespace troupe::groups
