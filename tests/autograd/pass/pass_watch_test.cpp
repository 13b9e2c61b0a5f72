// When a backward pass is over, by the words of those who run its steps, which come in any order.

#include "troupe/autograd/pass/pass_tracker.hpp"

#include <algorithm>
#include <random>

#include "tests/actors/node/job.hpp"

namespace troupe::autograd::detail {
namespace {

using namespace troupe::test;

constexpr std::uint64_t first = 1000;

class pass_watches : public testing::Test {
protected:
  void TearDown() override { shut_down(nodes); }

  const peer& lose(std::uint32_t rank) {
    auto& out = *here.actors().peers().find(rank);
    nodes[rank].shutdown(false);
    EXPECT_TRUE(eventually([&] { return !out.live(); }));
    return out;
  }

  std::vector<node> nodes = local_nodes({"a", "b", "c", "d", "e"});
  node_core& here = nodes[0].core();
};

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

TEST_F(pass_watches, hears_the_last_step_in_any_order) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    auto all = random_pass(random);
    std::shuffle(all.begin(), all.end(), random);
    pass_watch watch(here, first);
    for (auto& one : all) {
      ASSERT_FALSE(watch.over().ready()) << "seed " << seed;
      watch.add(std::move(one));
    }
    ASSERT_TRUE(watch.over().ready()) << "seed " << seed;
    watch.over().get();
  }
}

TEST_F(pass_watches, hears_nothing_new_in_what_comes_again) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    auto all = random_pass(random);
    std::shuffle(all.begin(), all.end(), random);
    pass_watch watch(here, first);
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_FALSE(watch.over().ready()) << "seed " << seed;
      watch.add(step_report(all[i]));
      watch.add(step_report(all[random() % (i + 1)]));
    }
    watch.over().get();
    watch.add(step_report(all[0]));
  }
}

TEST_F(pass_watches, is_told_by_many_threads) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    auto all = random_pass(random);
    pass_watch watch(here, first);
    all_at_once(all, [&](step_report& one) { watch.add(std::move(one)); });
    ASSERT_TRUE(watch.over().ready());
  }
}

TEST_F(pass_watches, keeps_the_latest_standing_of_each_node) {
  pass_watch watch(here, first);
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

TEST_F(pass_watches, fails_once) {
  pass_watch watch(here, first);
  watch.fail(std::make_exception_ptr(invalid_argument("one")));
  watch.fail(std::make_exception_ptr(invalid_argument("two")));
  watch.add(report(first, 0));
  EXPECT_EQ(fault_of<invalid_argument>([&] { watch.over().get(); }).text, "one");
}

// A loss matters where a step of the lost node is under way, or may have gone lost with it.
TEST_F(pass_watches, fails_with_a_node_that_matters) {
  pass_watch of_others(here, first);
  of_others.add(report(first, 0, {{first + 1, 1}}));
  pass_watch there(here, first);
  there.add(report(first, 0, {{first + 1, 2}}));
  pass_watch from_there(here, first);
  from_there.add(report(first, 0, {{first + 1, 2}}));
  from_there.add(report(first + 1, 2, {{first + 2, 1}}));
  pass_watch done_there(here, first);
  done_there.add(report(first, 0, {{first + 1, 2}, {first + 2, 1}}));
  done_there.add(report(first + 1, 2));

  const auto& lost = lose(2);
  for (auto* one : {&of_others, &there, &from_there, &done_there}) one->evict(lost);
  EXPECT_FALSE(of_others.over().ready());
  of_others.add(report(first + 1, 1));
  of_others.over().get();
  EXPECT_THROW(there.over().get(), peer_lost);
  EXPECT_THROW(from_there.over().get(), peer_lost);
  EXPECT_FALSE(done_there.over().ready());
}

// It was buried when nothing here was known to go there.
TEST_F(pass_watches, fails_with_a_node_that_is_lost_already) {
  const auto& lost = lose(2);

  pass_watch to(here, first);
  to.evict(lost);
  to.add(report(first, 0, {{first + 1, 1}, {first + 2, 2}}));
  EXPECT_THROW(to.over().get(), peer_lost);

  pass_watch from(here, first);
  from.add(report(first, 0, {{first + 1, 1}}));
  from.add(report(first + 1, 2, {{first + 2, 3}}));
  EXPECT_THROW(from.over().get(), peer_lost);

  pass_watch done(here, first);
  done.add(report(first + 1, 2));
  done.add(report(first, 0, {{first + 1, 2}}));
  done.over().get();
}

}  // namespace
}  // namespace troupe::autograd::detail
