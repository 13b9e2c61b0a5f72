// A backward pass is over when every step is: reports of steps arrive in any order.

#include "troupe/autograd/pass/pass_tracker.hpp"
#include "troupe/actors/node/node_core.hpp"

#include <algorithm>
#include <random>

#include "tests/actors/node/job.hpp"

namespace troupe::autograd::detail {
namespace {

using namespace troupe::test;

constexpr std::uint64_t first = 1000;

class pass_trackers : public testing::Test {
protected:
  void TearDown() override { shut_down(nodes); }

  const peer& lose(std::uint32_t rank) {
    auto& out = *here.peers().find(rank);
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

TEST_F(pass_trackers, notice_the_last_step_in_any_order) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    auto all = random_pass(random);
    std::shuffle(all.begin(), all.end(), random);
    pass_tracker tracker(here, first);
    for (auto& one : all) {
      ASSERT_FALSE(tracker.over().ready()) << "seed " << seed;
      tracker.add(std::move(one));
    }
    ASSERT_TRUE(tracker.over().ready()) << "seed " << seed;
    tracker.over().get();
  }
}

TEST_F(pass_trackers, ignore_reports_that_come_again) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    auto all = random_pass(random);
    std::shuffle(all.begin(), all.end(), random);
    pass_tracker tracker(here, first);
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_FALSE(tracker.over().ready()) << "seed " << seed;
      tracker.add(step_report(all[i]));
      tracker.add(step_report(all[random() % (i + 1)]));
    }
    tracker.over().get();
    tracker.add(step_report(all[0]));
  }
}

TEST_F(pass_trackers, take_reports_from_many_threads) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    auto all = random_pass(random);
    pass_tracker tracker(here, first);
    all_at_once(all, [&](step_report& one) { tracker.add(std::move(one)); });
    ASSERT_TRUE(tracker.over().ready());
  }
}

TEST_F(pass_trackers, keep_the_latest_standing_of_each_node) {
  pass_tracker tracker(here, first);
  auto one = report(first, 0, {{first + 1, 2}, {first + 2, 2}});
  auto late = report(first + 2, 2);
  late.standing.arrivals = 2;
  auto early = report(first + 1, 2);
  early.standing.arrivals = 1;
  early.standing.awaited = {7};
  tracker.add(std::move(late));
  tracker.add(std::move(early));
  tracker.add(std::move(one));
  tracker.over().get();
  EXPECT_EQ(tracker.standings().size(), 2u);
  EXPECT_TRUE(tracker.standings().at(2).awaited.empty());
}

TEST_F(pass_trackers, fail_once) {
  pass_tracker tracker(here, first);
  tracker.fail(std::make_exception_ptr(invalid_argument("one")));
  tracker.fail(std::make_exception_ptr(invalid_argument("two")));
  tracker.add(report(first, 0));
  EXPECT_EQ(fault_of<invalid_argument>([&] { tracker.over().get(); }).text, "one");
}

// A loss matters while a step of the lost node is under way, or one that it has caused and whose
// call may be lost as well.
TEST_F(pass_trackers, fail_with_a_node_that_takes_part) {
  pass_tracker of_others(here, first);
  of_others.add(report(first, 0, {{first + 1, 1}}));
  pass_tracker there(here, first);
  there.add(report(first, 0, {{first + 1, 2}}));
  pass_tracker from_there(here, first);
  from_there.add(report(first, 0, {{first + 1, 2}}));
  from_there.add(report(first + 1, 2, {{first + 2, 1}}));
  pass_tracker done_there(here, first);
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

// Its loss was reported before any step on it was known here.
TEST_F(pass_trackers, fail_with_a_node_that_is_lost_already) {
  const auto& lost = lose(2);

  pass_tracker to(here, first);
  to.evict(lost);
  to.add(report(first, 0, {{first + 1, 1}, {first + 2, 2}}));
  EXPECT_THROW(to.over().get(), peer_lost);

  pass_tracker from(here, first);
  from.add(report(first, 0, {{first + 1, 1}}));
  from.add(report(first + 1, 2, {{first + 2, 3}}));
  EXPECT_THROW(from.over().get(), peer_lost);

  pass_tracker done(here, first);
  done.add(report(first + 1, 2));
  done.add(report(first, 0, {{first + 1, 2}}));
  done.over().get();
}

}  // namespace
}  // namespace troupe::autograd::detail
