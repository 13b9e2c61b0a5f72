// When a backward pass is over, by the words of those who run its steps, which come in any order.

#include "autograd/pass_watch.hpp"

#include <algorithm>
#include <random>

#include "tests/actors/job.hpp"

namespace troupe::autograd::detail {
namespace {

using namespace troupe::test;

constexpr std::uint64_t first = 1000;

step_report report(std::uint64_t step, std::uint32_t rank, std::vector<next_step> caused = {}) {
  step_report out;
  out.step = step;
  out.caused = std::move(caused);
  out.standing.rank = rank;
  return out;
}

// Steps that cause one another, from `first` on rank 0.
std::vector<step_report> random_pass(std::mt19937& random) {
  std::vector<step_report> all{report(first, 0)};
  const auto steps = random() % 30;
  for (std::uint64_t i = 1; i <= steps; ++i) {
    const auto rank = static_cast<std::uint32_t>(random() % 5);
    all[random() % all.size()].caused.push_back({first + i, rank});
    all.push_back(report(first + i, rank));
  }
  return all;
}

TEST(pass_watch, hears_the_last_step_in_any_order) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    auto all = random_pass(random);
    std::shuffle(all.begin(), all.end(), random);
    pass_watch watch(nullptr, first, 0);
    for (auto& one : all) {
      ASSERT_FALSE(watch.over().ready()) << "seed " << seed;
      watch.add(std::move(one));
    }
    ASSERT_TRUE(watch.over().ready()) << "seed " << seed;
    watch.over().get();
  }
}

TEST(pass_watch, is_told_by_many_threads) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    auto all = random_pass(random);
    pass_watch watch(nullptr, first, 0);
    all_at_once(all, [&](step_report& one) { watch.add(std::move(one)); });
    ASSERT_TRUE(watch.over().ready());
  }
}

TEST(pass_watch, keeps_the_latest_standing_of_each_node) {
  pass_watch watch(nullptr, first, 0);
  auto one = report(first, 0, {{first + 1, 2}, {first + 2, 2}});
  auto late = report(first + 2, 2);
  late.standing.arrivals = 2;
  auto early = report(first + 1, 2);
  early.standing.arrivals = 1;
  early.standing.awaited = {7};
  watch.add(std::move(late));
  watch.add(std::move(early));
  watch.add(std::move(one));
  watch.over().get();
  EXPECT_EQ(watch.standings().size(), 2u);
  EXPECT_TRUE(watch.standings().at(2).awaited.empty());
}

TEST(pass_watch, fails_once) {
  pass_watch watch(nullptr, first, 0);
  watch.fail(std::make_exception_ptr(invalid_argument("one")));
  watch.fail(std::make_exception_ptr(invalid_argument("two")));
  watch.add(report(first, 0));
  EXPECT_EQ(fault_of<invalid_argument>([&] { watch.over().get(); }).text, "one");
}

// A loss matters where a step of the lost node is under way, or may have gone lost with it.
TEST(pass_watch, fails_with_a_node_that_matters) {
  auto nodes = local_nodes({"a", "b", "c"});
  auto& peers = nodes[0].core().actors().peers();
  nodes[2].shutdown(false);
  auto* lost = peers.find(2);
  ASSERT_TRUE(eventually([&] { return !lost->live(); }));

  pass_watch of_others(nullptr, first, 0);
  of_others.add(report(first, 0, {{first + 1, 1}}));
  of_others.bury(*lost);
  EXPECT_FALSE(of_others.over().ready());
  of_others.add(report(first + 1, 1));
  of_others.over().get();

  pass_watch there(nullptr, first, 0);
  there.add(report(first, 0, {{first + 1, 2}}));
  there.bury(*lost);
  EXPECT_THROW(there.over().get(), peer_lost);

  pass_watch from_there(nullptr, first, 0);
  from_there.add(report(first, 0, {{first + 1, 2}}));
  from_there.add(report(first + 1, 2, {{first + 2, 1}}));
  from_there.bury(*lost);
  EXPECT_THROW(from_there.over().get(), peer_lost);

  pass_watch done_there(nullptr, first, 0);
  done_there.add(report(first, 0, {{first + 1, 2}, {first + 2, 1}}));
  done_there.add(report(first + 1, 2));
  done_there.bury(*lost);
  EXPECT_FALSE(done_there.over().ready());
}

}  // namespace
}  // namespace troupe::autograd::detail
