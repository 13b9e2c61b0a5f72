// Entries for which no gradients will come: what is left is as if they had never been planned.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/autograd/local/backward_graphs.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::test {
namespace {

const graph_kind kind{at::kDouble, 14, false};

struct outcome {
  leaf_gradients gradients;
  std::vector<std::string> log;
};

using numbers = std::vector<std::size_t>;

// The same seed, and only those entries.
outcome of_entries(std::uint64_t seed, const numbers& entries) {
  outcome out;
  const auto graph = random_graph(seed, kind, out.log);
  const auto all = graph.plan(true);
  autograd::backward_plan plan;
  for (const auto nr : entries) plan.add(all.entries()[nr]);
  autograd::executor pass(plan, {}, sink_into(out.gradients, graph.leaves));
  const auto arrivals = graph.arrivals(true);
  for (std::size_t i = 0; i < entries.size(); ++i) pass.arrive(i, arrivals[entries[i]]);
  EXPECT_TRUE(pass.run());
  return out;
}

std::vector<std::string> sorted(std::vector<std::string> log) {
  std::sort(log.begin(), log.end());
  return log;
}

TEST(leave_out, gives_what_a_plan_without_them_gives) {
  std::mt19937_64 random(3);
  int blocked = 0, twice = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    outcome got;
    const auto graph = random_graph(seed, kind, got.log);
    autograd::executor pass(graph.plan(true), {}, sink_into(got.gradients, graph.leaves));
    const auto arrivals = graph.arrivals(true);
    auto order = pass.awaited();
    if (order.size() < 2) continue;
    std::shuffle(order.begin(), order.end(), random);
    const auto kept_count = 1 + random() % (order.size() - 1);
    numbers kept(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept_count));
    numbers out(order.begin() + static_cast<std::ptrdiff_t>(kept_count), order.end());
    // Some of them late, and in two parts now and then.
    const auto first = random() % (kept.size() + 1);
    for (std::size_t i = 0; i < first; ++i) pass.arrive(kept[i], arrivals[kept[i]]);
    EXPECT_FALSE(pass.run());
    blocked += pass.blocked();
    if (out.size() > 1 && seed % 2) {
      ++twice;
      pass.leave_out({out.back()});
      out.pop_back();
      EXPECT_FALSE(pass.run());
    }
    pass.leave_out(out);
    for (std::size_t i = first; i < kept.size(); ++i) pass.arrive(kept[i], arrivals[kept[i]]);
    EXPECT_TRUE(pass.run());
    EXPECT_TRUE(pass.done());
    EXPECT_FALSE(pass.blocked());
    EXPECT_TRUE(pass.awaited().empty());
    std::sort(kept.begin(), kept.end());
    const auto wanted = of_entries(seed, kept);
    ASSERT_EQ(got.gradients.size(), wanted.gradients.size());
    for (std::size_t i = 0; i < wanted.gradients.size(); ++i)
      EXPECT_LE(distance(got.gradients[i], wanted.gradients[i]), 1e-6) << "leaf " << i;
    EXPECT_EQ(sorted(got.log), sorted(wanted.log));
  }
  EXPECT_GT(blocked, 20);
  EXPECT_GT(twice, 20);
}

TEST(leave_out, refuses_what_has_arrived_and_what_is_not_there) {
  const auto x = at::ones({2}, at::kDouble).requires_grad_();
  const auto y = x * 2;
  autograd::backward_plan plan;
  plan.add({y.grad_fn(), {}});
  plan.add({(x * 3).grad_fn(), {}});
  at::Tensor gradient;
  autograd::executor pass(plan, {}, [&](const at::Tensor&, at::Tensor g) { gradient = g; });
  pass.arrive(0, {at::ones({2}, at::kDouble)});
  EXPECT_FALSE(pass.run());
  EXPECT_TRUE(pass.blocked());
  EXPECT_THROW(pass.leave_out({1, 0}), invalid_argument);
  EXPECT_THROW(pass.leave_out({2}), invalid_argument);
  EXPECT_EQ(pass.awaited(), numbers{1});
  pass.leave_out({1});
  EXPECT_THROW(pass.leave_out({1}), invalid_argument);
  EXPECT_THROW(pass.arrive(1, {at::ones({2}, at::kDouble)}), invalid_argument);
  EXPECT_TRUE(pass.run());
  EXPECT_TRUE(at::equal(gradient, at::full({2}, 2.0, at::kDouble)));
}

}  // namespace
}  // namespace troupe::test
