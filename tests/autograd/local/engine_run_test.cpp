// A whole backward pass in libtorch's engine: what it promises besides the engine's results
// (executor_random_test).

#include "troupe/autograd/local/engine_run.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>

#include <stdexcept>

#include "tests/autograd/local/backward_graphs.hpp"

namespace troupe::test {
namespace {

namespace ta = torch::autograd;
using autograd::backward_plan;
using autograd::run_in_engine;
using ta::variable_list;

// Stands for a message that was received.
struct receive_node : ta::Node {
  std::string name() const override { return "receive"; }

protected:
  variable_list apply(variable_list&&) override { throw std::logic_error("the engine ran a stop"); }
};

backward_plan plan_of(const std::vector<at::Tensor>& roots) {
  backward_plan out;
  for (const auto& one : roots) {
    const auto edge = ta::impl::gradient_edge(one);
    out.add({edge.function, {edge.input_nr}});
  }
  return out;
}

class engine_runs : public ::testing::Test {
protected:
  engine_runs() {
    ta::create_gradient_edge(first, node);
    ta::create_gradient_edge(second, node);
  }
  const std::shared_ptr<receive_node> node{new receive_node, ta::deleteNode};
  at::Tensor first = torch::full({2}, 3.0), second = torch::full({2}, 11.0);
  const at::Tensor w = torch::full({2}, 5.0, torch::requires_grad());
  leaf_gradients got;
};

TEST_F(engine_runs, give_the_gradients_at_stops) {
  int hooks = 0, stops = 0;
  first.register_hook([&](at::Tensor g) {
    ++hooks;
    return g * 10;
  });
  variable_list at_stop;
  run_in_engine(plan_of({first * w, first + w}), {{torch::ones({2})}, {torch::ones({2})}}, {},
                sink_into(got, {w}), {node},
                [&](const autograd::node_ptr& stop, variable_list gradients) {
                  ++stops;
                  EXPECT_EQ(stop, node);
                  at_stop = std::move(gradients);
                });
  EXPECT_EQ(stops, 1);
  EXPECT_EQ(hooks, 1);
  ASSERT_EQ(at_stop.size(), 2u);
  EXPECT_TRUE(at_stop[0].equal(torch::full({2}, 60.0)));
  EXPECT_FALSE(at_stop[1].defined()) << "the pass does not lead there";
  EXPECT_TRUE(got[0].equal(torch::full({2}, 4.0)));
  EXPECT_FALSE(w.grad().defined());
}

TEST_F(engine_runs, refuse_ends_and_stops_that_the_engine_would_pass_by) {
  const auto plan = plan_of({first * w});
  const auto run = [&](const std::vector<autograd::node_ptr>& stops) {
    run_in_engine(plan, {{torch::ones({2})}}, {}, sink_into(got, {w}), stops);
  };
  EXPECT_THROW(run({}), invalid_argument);
  EXPECT_THROW(run({node, plan.leaves()[0]}), invalid_argument);
  EXPECT_THROW(run({node, plan.entries()[0].node}), invalid_argument);
  EXPECT_THROW(run({node, nullptr}), invalid_argument);
  EXPECT_FALSE(got[0].defined());
  run({node});
  EXPECT_TRUE(got[0].equal(torch::full({2}, 3.0)));
}

TEST_F(engine_runs, check_what_arrives) {
  const auto plan = plan_of({w * 2});
  const auto sink = sink_into(got, {w});
  EXPECT_THROW(run_in_engine({}, {}, {}, sink), invalid_argument);
  EXPECT_THROW(run_in_engine(plan, {}, {}, sink), invalid_argument);
  EXPECT_THROW(run_in_engine(plan, {{}}, {}, sink), invalid_argument);
  EXPECT_THROW(run_in_engine(plan, {{torch::ones({7})}}, {}, sink), invalid_argument);
  EXPECT_FALSE(got[0].defined());
}

TEST_F(engine_runs, pass_undefined_gradients_on) {
  const auto v = torch::ones({2}, torch::requires_grad());
  int undefined = 0;
  v.register_hook([&](at::Tensor g) { undefined += !g.defined(); });
  run_in_engine(plan_of({v * 2, w * 2}), {{at::Tensor()}, {torch::ones({2})}}, {},
                sink_into(got, {w, v}));
  EXPECT_EQ(undefined, 1);
  EXPECT_TRUE(got[0].equal(torch::full({2}, 2.0)));
  EXPECT_FALSE(got[1].defined());
}

TEST_F(engine_runs, start_at_leaves_and_release_the_graph) {
  const auto y = w.exp();
  const auto plan = plan_of({w, y});
  const auto run = [&](bool keep) {
    run_in_engine(plan, {{torch::ones({2})}, {torch::zeros({2})}}, {keep, false},
                  sink_into(got, {w}));
  };
  run(true);
  EXPECT_TRUE(got[0].equal(torch::ones({2})));
  run(false);
  EXPECT_TRUE(got[0].equal(torch::ones({2})));
  EXPECT_THROW(run(false), autograd::backward_error);
}

TEST_F(engine_runs, fail_with_what_was_thrown) {
  const auto y = w * 2;
  y.register_hook([](at::Tensor) { throw std::domain_error("no domain"); });
  int sunk = 0;
  try {
    run_in_engine(plan_of({y}), {{torch::ones({2})}}, {},
                  [&](const at::Tensor&, at::Tensor) { ++sunk; });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const autograd::backward_error& e) {
    EXPECT_EQ(e.operation(), "");
    EXPECT_THROW(std::rethrow_exception(e.cause()), std::domain_error);
  }
  EXPECT_EQ(sunk, 0);
}

}  // namespace
}  // namespace troupe::test
