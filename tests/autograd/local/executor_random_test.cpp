// The executor against libtorch's engine, over random graphs.

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <random>

#include "tests/autograd/local/backward_graphs.hpp"
#include "troupe/autograd/local/engine_run.hpp"

namespace troupe::test {
namespace {

using log_lines = std::vector<std::string>;

constexpr int graphs_per_dtype = 150;

class random_graphs : public ::testing::TestWithParam<at::ScalarType> {
protected:
  graph_kind kind() const { return {GetParam(), 14, false}; }

  // What sums in another order may make of a gradient, relative.
  double tolerance() const {
    switch (GetParam()) {
      case at::kDouble:
      case at::kComplexDouble: return 1e-6;
      case at::kFloat:
      case at::kComplexFloat: return 1e-4;
      default: return 0.1;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(dtypes, random_graphs,
                         ::testing::Values(at::kDouble, at::kFloat, at::kComplexDouble,
                                           at::kComplexFloat, at::kHalf, at::kBFloat16),
                         [](const auto& info) { return std::string(at::toString(info.param)); });

void expect_same_bits(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(same_bits(got[i], wanted[i])) << "tensor " << i << ": " << got[i] << wanted[i];
}

std::vector<at::Tensor> retained(const backward_graph& graph) {
  std::vector<at::Tensor> out;
  for (const auto& one : graph.retained) out.push_back(one.grad());
  return out;
}

log_lines without_accumulators(log_lines log) {
  std::erase_if(log, [](const auto& line) { return line.starts_with("accumulator"); });
  return log;
}

log_lines sorted(log_lines log) {
  std::sort(log.begin(), log.end());
  return log;
}

TEST_P(random_graphs, what_arrives_at_once_gives_the_engines_bits_nodes_and_hooks) {
  for (std::uint64_t seed = 1; seed <= graphs_per_dtype; ++seed) {
    SCOPED_TRACE(seed);
    log_lines of_engine, of_executor;
    const auto a = random_graph(seed, kind(), of_engine);
    leaf_gradients wanted;
    log_lines names;
    {
      const called_nodes nodes;
      wanted = engine_backward(a);
      names = nodes.names();
    }
    const auto b = random_graph(seed, kind(), of_executor);
    leaf_gradients got;
    {
      const called_nodes nodes;
      got = executor_backward(b, seed % 2 == 0);
      EXPECT_EQ(nodes.names(), names);
    }
    ASSERT_FALSE(names.empty());
    expect_same_bits(got, wanted);
    expect_same_bits(retained(b), retained(a));
    EXPECT_EQ(of_executor, of_engine);
  }
}

TEST_P(random_graphs, what_arrives_one_after_the_other_gives_the_engines_values_and_hooks) {
  std::mt19937_64 random(7);
  for (std::uint64_t seed = 1; seed <= graphs_per_dtype; ++seed) {
    SCOPED_TRACE(seed);
    log_lines of_engine, of_executor;
    const auto a = random_graph(seed, kind(), of_engine);
    const auto wanted = engine_backward(a);
    const auto b = random_graph(seed, kind(), of_executor);
    leaf_gradients got;
    autograd::executor pass(b.plan(true), {}, sink_into(got, b.leaves));
    auto arrivals = b.arrivals(true);
    auto left = pass.awaited();
    ASSERT_EQ(left.size(), arrivals.size());
    std::shuffle(left.begin(), left.end(), random);
    while (!left.empty()) {
      EXPECT_FALSE(pass.done());
      pass.arrive(left.back(), arrivals[left.back()]);
      left.pop_back();
      auto awaited = left;
      std::sort(awaited.begin(), awaited.end());
      EXPECT_EQ(pass.awaited(), awaited);
      EXPECT_EQ(pass.run(), left.empty());
    }
    EXPECT_TRUE(pass.done());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(distance(got[i], wanted[i]), tolerance()) << "leaf " << i;
    EXPECT_EQ(sorted(of_executor), sorted(of_engine));
  }
}

TEST_P(random_graphs, a_pass_in_the_engine_gives_the_same) {
  for (std::uint64_t seed = 1; seed <= graphs_per_dtype; ++seed) {
    SCOPED_TRACE(seed);
    log_lines of_engine, of_run;
    const auto a = random_graph(seed, kind(), of_engine);
    const auto wanted = engine_backward(a);
    const auto b = random_graph(seed, kind(), of_run);
    const bool grouped = seed % 2 == 0;
    leaf_gradients got;
    autograd::run_in_engine(b.plan(grouped), b.arrivals(grouped), {}, sink_into(got, b.leaves));
    expect_same_bits(got, wanted);
    expect_same_bits(retained(b), retained(a));
    EXPECT_EQ(without_accumulators(of_run), without_accumulators(of_engine));
    EXPECT_EQ(sorted(of_run), sorted(of_engine));
  }
}

TEST_P(random_graphs, a_kept_graph_gives_the_same_again) {
  for (std::uint64_t seed = 1; seed <= graphs_per_dtype / 3; ++seed) {
    SCOPED_TRACE(seed);
    log_lines log;
    const auto graph = random_graph(seed, kind(), log);
    const auto wanted = engine_backward(graph, {true, false});
    expect_same_bits(executor_backward(graph, false, {true, false}), wanted);
    expect_same_bits(executor_backward(graph, true, {true, false}), wanted);
    expect_same_bits(executor_backward(graph, true), wanted);
  }
}

TEST_P(random_graphs, second_derivatives_are_those_of_the_engine) {
  if (tolerance() > 0.01) GTEST_SKIP() << "sums of squares of 16 bits overflow";
  const auto second = [](const backward_graph& graph, const leaf_gradients& first) {
    at::Tensor length = torch::zeros({}, at::kDouble);
    for (const auto& one : first)
      if (one.defined()) length = length + one.abs().pow(2).sum().to(at::kDouble);
    return torch::autograd::grad({length}, graph.leaves, {}, true, false, true);
  };
  int with_second = 0;
  for (std::uint64_t seed = 1; seed <= graphs_per_dtype / 2; ++seed) {
    SCOPED_TRACE(seed);
    log_lines log;
    const graph_kind smooth{GetParam(), 8, true};
    const auto a = random_graph(seed, smooth, log);
    // backward() would copy the gradients, and the copies would be part of what is derived again.
    const auto first = torch::autograd::grad(a.roots, a.leaves, a.gradients, true, true, true);
    const auto b = random_graph(seed, smooth, log);
    const auto ours = executor_backward(b, false, {true, true});
    expect_same_bits(ours, first);
    const auto depends = [](const at::Tensor& t) { return t.defined() && t.requires_grad(); };
    const bool has_second = std::any_of(first.begin(), first.end(), depends);
    ASSERT_EQ(std::any_of(ours.begin(), ours.end(), depends), has_second);
    if (!has_second) continue;
    ++with_second;
    expect_same_bits(second(b, ours), second(a, first));
  }
  EXPECT_GT(with_second, graphs_per_dtype / 4);
}

// Without these the tests above would show less than they seem to.
TEST_P(random_graphs, hold_what_is_to_be_tested) {
  int sparse = 0, hooked = 0, kept = 0, shared = 0, undefined = 0;
  for (std::uint64_t seed = 1; seed <= graphs_per_dtype; ++seed) {
    log_lines log;
    const auto graph = random_graph(seed, kind(), log);
    for (const auto& one : executor_backward(graph)) {
      if (one.defined()) sparse += one.is_sparse();
      undefined += !one.defined();
    }
    hooked += !log.empty();
    for (const auto& one : graph.retained) kept += one.grad().defined();
    shared += graph.plan(true).entries().size() < graph.roots.size();
  }
  EXPECT_EQ(sparse > 0, !at::isComplexType(GetParam()) && GetParam() != at::kHalf);
  EXPECT_GT(hooked, graphs_per_dtype / 2);
  EXPECT_GT(kept, graphs_per_dtype / 4);
  EXPECT_GT(shared, graphs_per_dtype / 4);
  EXPECT_GT(undefined, 0);
}

}  // namespace
}  // namespace troupe::test
