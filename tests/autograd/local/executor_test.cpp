// The backward executor: what it promises besides the engine's results (executor_random_test).

#include "troupe/autograd/local/executor.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <stdexcept>
#include <thread>

#include "tests/autograd/graphs/received.hpp"
#include "tests/autograd/local/backward_graphs.hpp"
#include "troupe/autograd/local/engine_run.hpp"

namespace troupe::test {
namespace {

namespace ta = torch::autograd;
using autograd::backward_error;
using autograd::backward_plan;
using autograd::executor;
using ta::variable_list;

void ignore(const at::Tensor&, at::Tensor) {}

// What a node does is a function that the test sets.
std::function<void()> in_backward;

struct calls_back : ta::Function<calls_back> {
  static at::Tensor forward(ta::AutogradContext*, at::Tensor x) { return x * 2; }
  static variable_list backward(ta::AutogradContext*, variable_list g) {
    if (in_backward) in_backward();
    return {g[0] * 2};
  }
};

struct callback {
  explicit callback(std::function<void()> f) { in_backward = std::move(f); }
  ~callback() { in_backward = nullptr; }
};

template <class F>
std::string text_of(F&& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(backward_plans, count_what_each_node_waits_for) {
  const auto x = torch::ones({2}, torch::requires_grad());
  const auto y = x * 2;
  const auto z = y + y;
  backward_plan plan;
  std::vector<std::string> reached;
  const auto visit = [&](const autograd::node_ptr& node) { reached.push_back(node->name()); };
  EXPECT_EQ(plan.add(entry_of(y), visit), 0u);
  EXPECT_EQ(reached, (std::vector<std::string>{"MulBackward1", "torch::autograd::AccumulateGrad"}));
  reached.clear();
  EXPECT_EQ(plan.add(entry_of(z), visit), 1u);
  EXPECT_EQ(reached, std::vector<std::string>{"AddBackward0"}) << "the rest was known";
  EXPECT_EQ(plan.add(entry_of(y)), 2u);
  EXPECT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan.awaited(y.grad_fn().get()), 4u) << "two edges and two entries";
  EXPECT_EQ(plan.awaited(z.grad_fn().get()), 1u);
  ASSERT_EQ(plan.leaves().size(), 1u);
  EXPECT_EQ(plan.awaited(plan.leaves()[0].get()), 1u);
  EXPECT_TRUE(plan.ends().empty());
  EXPECT_TRUE(plan.contains(z.grad_fn().get()));
  const auto other = x + 1;
  EXPECT_FALSE(plan.contains(other.grad_fn().get()));
  EXPECT_EQ(plan.awaited(other.grad_fn().get()), 0u);
}

TEST(backward_plans, find_nodes_of_a_class) {
  const received a, b;
  const auto x = torch::ones({2}, torch::requires_grad());
  const auto y = a.tensor * x;
  const auto z = y + b.tensor * a.tensor;
  backward_plan plan;
  std::vector<std::shared_ptr<receive_node>> found;
  plan.add(entry_of(y), autograd::collect(found));
  EXPECT_EQ(found, std::vector<std::shared_ptr<receive_node>>{a.node});
  plan.add(entry_of(z), autograd::collect(found));
  EXPECT_EQ(found, (std::vector<std::shared_ptr<receive_node>>{a.node, b.node}));
  EXPECT_EQ(plan.ends(), (std::vector<autograd::node_ptr>{a.node, b.node}));
}

TEST(backward_plans, refuse_entries_that_are_none) {
  backward_plan plan;
  EXPECT_THROW(plan.add({}), invalid_argument);
  const auto x = torch::ones({2}, torch::requires_grad());
  const auto node = (x * 2).grad_fn();
  EXPECT_THROW(plan.add({node, {1}}), invalid_argument);
  const std::shared_ptr<receive_node> no_inputs(new receive_node, ta::deleteNode);
  EXPECT_THROW(plan.add({no_inputs, {}}), invalid_argument);
  EXPECT_EQ(plan.size(), 0u);
  EXPECT_THROW(executor({}, {}, ignore), invalid_argument);
  EXPECT_EQ(plan.add({node, {}}), 0u);
  EXPECT_EQ(plan.entries()[0].inputs, std::vector<std::uint32_t>{0});
}

TEST(executors, run_what_is_ready_and_wait_for_the_rest) {
  const auto w = torch::full({2}, 5.0, torch::requires_grad());
  const auto v = torch::full({2}, 7.0, torch::requires_grad());
  const auto sent = w * 2;  // reached from the loss, too
  const auto loss = sent * v + 1;
  leaf_gradients got;
  executor pass(plan_of({loss, sent}), {}, sink_into(got, {w, v}));
  EXPECT_FALSE(pass.run()) << "nothing is there";
  pass.arrive(0, {torch::ones({2})});
  EXPECT_FALSE(got[1].defined()) << "arriving runs nothing";
  EXPECT_FALSE(pass.run());
  EXPECT_FALSE(got[0].defined());
  EXPECT_TRUE(got[1].equal(torch::full({2}, 10.0)));
  EXPECT_EQ(pass.awaited(), std::vector<std::size_t>{1});
  EXPECT_FALSE(pass.done());
  pass.arrive(1, {torch::full({2}, 100.0)});
  EXPECT_TRUE(pass.awaited().empty());
  EXPECT_FALSE(pass.done());
  EXPECT_TRUE(pass.run());
  EXPECT_TRUE(got[0].equal(torch::full({2}, 2 * 107.0)));
  EXPECT_FALSE(w.grad().defined());
  EXPECT_EQ(pass.failure(), nullptr);
  EXPECT_TRUE(pass.run()) << "and nothing happens";
}

TEST(executors, run_nodes_that_stand_for_messages) {
  const received from;
  const auto w = torch::full({2}, 5.0, torch::requires_grad());
  leaf_gradients got;
  executor pass(plan_of({from.tensor * w}), {}, sink_into(got, {w}));
  pass.arrive(0, {torch::ones({2})});
  EXPECT_TRUE(pass.run());
  EXPECT_EQ(from.node->calls, 1);
  ASSERT_EQ(from.node->got.size(), 1u);
  EXPECT_TRUE(from.node->got[0].equal(torch::full({2}, 5.0)));
  EXPECT_TRUE(got[0].equal(torch::full({2}, 3.0)));
}

TEST(executors, take_gradients_from_the_nodes_that_they_run) {
  const auto w = torch::full({2}, 5.0, torch::requires_grad());
  const auto sent = w * 3;
  leaf_gradients got;
  executor pass(plan_of({calls_back::apply(w), sent}), {}, sink_into(got, {w}));
  const callback here([&] { pass.arrive(1, {torch::ones({2})}); });
  pass.arrive(0, {torch::ones({2})});
  EXPECT_TRUE(pass.run());
  EXPECT_TRUE(got[0].equal(torch::full({2}, 5.0)));
}

TEST(executors, take_each_entry_once_and_only_what_fits) {
  const auto x = torch::ones({2, 3}, torch::requires_grad());
  const auto y = x * 2;
  leaf_gradients got;
  executor pass(plan_of({y}), {}, sink_into(got, {x}));
  EXPECT_THROW(pass.arrive(1, {torch::ones({2, 3})}), invalid_argument);
  EXPECT_THROW(pass.arrive(0, {}), invalid_argument);
  EXPECT_THROW(pass.arrive(0, {torch::ones({2, 3}), torch::ones({2, 3})}), invalid_argument);
  EXPECT_THROW(pass.arrive(0, {torch::ones({3, 3})}), invalid_argument);
  EXPECT_EQ(pass.failure(), nullptr);
  EXPECT_EQ(pass.awaited(), std::vector<std::size_t>{0});
  pass.arrive(0, {torch::ones({2, 3}, at::kDouble)});  // of another dtype, as the engine takes it
  EXPECT_THROW(pass.arrive(0, {torch::ones({2, 3})}), invalid_argument);
  EXPECT_TRUE(pass.run());
  EXPECT_THROW(pass.arrive(0, {torch::ones({2, 3})}), invalid_argument);
  EXPECT_TRUE(same_bits(got[0], torch::full({2, 3}, 2.0f)));
}

TEST(executors, pass_undefined_gradients_on) {
  const auto x = torch::ones({2}, torch::requires_grad());
  const auto y = torch::ones({2}, torch::requires_grad());
  int undefined = 0;
  x.register_hook([&](at::Tensor g) { undefined += !g.defined(); });
  leaf_gradients got;
  executor pass(plan_of({x * 2, calls_back::apply(y)}), {}, sink_into(got, {x, y}));
  pass.arrive(0, {at::Tensor()});
  pass.arrive(1, {at::Tensor()});
  EXPECT_TRUE(pass.run());
  EXPECT_EQ(undefined, 1);
  EXPECT_FALSE(got[0].defined());
  EXPECT_TRUE(got[1].equal(torch::zeros({2}))) << "this function asks for zeros";
}

// Says what is done with it.
struct logging_node : ta::Node {
  explicit logging_node(std::vector<std::string>& log) : log(log) {}
  void will_release_variables() override { log.push_back("will release"); }
  void release_variables() override { log.push_back("release"); }
  std::vector<std::string>& log;

protected:
  variable_list apply(variable_list&& g) override {
    log.push_back("apply");
    return std::move(g);
  }
};

struct logging_hook : ta::FunctionPreHook, ta::FunctionPostHook {
  logging_hook(std::vector<std::string>& log, std::string what) : log(log), what(std::move(what)) {}
  variable_list operator()(const variable_list& g) override {
    log.push_back(what);
    return g;
  }
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    log.push_back(what);
    return outputs;
  }
  std::vector<std::string>& log;
  std::string what;
};

TEST(executors, do_all_at_a_node_in_the_engines_order) {
  const auto x = torch::ones({2}, torch::requires_grad());
  std::vector<std::string> log;
  const std::shared_ptr<logging_node> node(new logging_node(log), ta::deleteNode);
  node->set_next_edges(ta::collect_next_edges(x));
  auto y = torch::ones({2});
  ta::create_gradient_edge(y, node);
  node->add_retains_grad_hook(std::make_unique<logging_hook>(log, "retain"), 0);
  node->add_post_hook(std::make_unique<logging_hook>(log, "post"));
  node->add_pre_hook(std::make_unique<logging_hook>(log, "pre"));
  node->add_tensor_pre_hook(std::make_unique<logging_hook>(log, "tensor"));
  x.register_hook([&](at::Tensor) { log.push_back("leaf"); });
  for (const bool keep : {true, false}) {
    log.clear();
    y.backward(torch::ones({2}), keep);
    const auto of_engine = log;
    ASSERT_GE(of_engine.size(), 6u);
    log.clear();
    executor pass(plan_of({y}), {keep, false}, ignore);
    pass.arrive(0, {torch::ones({2})});
    EXPECT_TRUE(pass.run());
    EXPECT_EQ(log, of_engine);
  }
}

TEST(executors, give_gradients_away_without_a_copy) {
  const auto x = torch::ones({2}, torch::requires_grad());
  const auto root = x + torch::ones({2});
  auto gradient = torch::full({2}, 3.0);
  const void* bytes = gradient.data_ptr();
  int sunk = 0;
  executor pass(plan_of({root}), {}, [&](const at::Tensor&, at::Tensor g) {
    ++sunk;
    EXPECT_EQ(g.data_ptr(), bytes);
    EXPECT_EQ(g.use_count(), 1u);
  });
  pass.arrive(0, {std::move(gradient)});
  EXPECT_TRUE(pass.run());
  EXPECT_EQ(sunk, 1);
}

TEST(executors, report_that_a_graph_was_released) {
  const auto x = torch::ones({2}, torch::requires_grad());
  const auto y = x.exp();
  const auto plan = plan_of({y});
  executor first(plan, {}, ignore);
  first.arrive(0, {torch::ones({2})});
  EXPECT_TRUE(first.run());
  executor again(plan, {}, ignore);
  again.arrive(0, {torch::ones({2})});
  const auto text = text_of([&] { again.run(); });
  EXPECT_NE(text.find("Trying to backward through the graph a second time"), std::string::npos)
      << text;
  EXPECT_NE(text.find("ExpBackward0"), std::string::npos) << text;
}

struct lost_disk : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(executors, fail_with_what_a_node_throws_and_its_name) {
  const auto x = torch::ones({2}, torch::requires_grad());
  const auto y = torch::ones({2}, torch::requires_grad());
  const auto late = y * 2;
  const callback here([] { throw lost_disk("no disk"); });
  const auto failing = calls_back::apply(x + 1);
  int sunk = 0;
  const auto waiting = y * 3;
  executor pass(plan_of({failing, late, late + failing, waiting, waiting}), {},
                [&](const at::Tensor&, at::Tensor) { ++sunk; });
  auto held = torch::ones({2});
  pass.arrive(0, {held});
  pass.arrive(1, {held});
  pass.arrive(3, {held});
  EXPECT_GT(held.use_count(), 1u);
  EXPECT_FALSE(pass.run());
  pass.arrive(2, {torch::ones({2})});
  std::string first;
  try {
    pass.run();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const backward_error& e) {
    first = e.what();
    EXPECT_NE(e.operation().find("calls_back"), std::string::npos) << e.operation();
    EXPECT_THROW(std::rethrow_exception(e.cause()), lost_disk);
    EXPECT_EQ(e.code(), errc::remote_error);
    EXPECT_NE(e.fault().type.find("lost_disk"), std::string::npos) << e.fault().type;
    EXPECT_NE(first.find("no disk"), std::string::npos) << first;
    EXPECT_NE(first.find(e.operation()), std::string::npos) << first;
  }
  EXPECT_EQ(held.use_count(), 1u) << "what has arrived is dropped";
  EXPECT_EQ(sunk, 0);
  EXPECT_FALSE(pass.done());
  ASSERT_NE(pass.failure(), nullptr);
  EXPECT_EQ(pass.failure()->what(), first);
  EXPECT_EQ(text_of([&] { pass.run(); }), first);
  EXPECT_EQ(text_of([&] { pass.arrive(1, {held}); }), first);
}

TEST(executors, keep_an_error_of_ours_and_fail_with_hooks_and_sinks_too) {
  const auto x = torch::ones({2}, torch::requires_grad());
  const auto failing = [&](const at::Tensor& root, autograd::gradient_sink sink) {
    executor pass(plan_of({root}), {}, std::move(sink));
    pass.arrive(0, {torch::ones({2})});
    try {
      pass.run();
    } catch (const backward_error& e) {
      return e;
    }
    throw std::logic_error("nothing was thrown");
  };
  const callback here([] { throw peer_lost("gone"); });
  EXPECT_EQ(failing(calls_back::apply(x), ignore).code(), errc::peer_lost);
  const auto hooked = x * 2;
  hooked.register_hook([](at::Tensor) { throw lost_disk("hook"); });
  EXPECT_EQ(failing(hooked, ignore).operation(), "MulBackward1");
  const auto sunk = failing(x * 2, [](const at::Tensor&, at::Tensor) { throw lost_disk("sink"); });
  EXPECT_EQ(sunk.operation(), "torch::autograd::AccumulateGrad");
  EXPECT_THROW(std::rethrow_exception(sunk.cause()), lost_disk);
}

TEST(executors, fail_with_sums_that_libtorch_cannot_make) {
  const auto x = torch::ones({2, 2}, at::kHalf).requires_grad_();
  const auto y = x * 1;
  const auto half = [] { return torch::ones({2, 2}).to_sparse().to(at::kHalf); };
  executor pass(plan_of({y, y}), {}, ignore);
  pass.arrive(0, {half()});
  EXPECT_THROW(pass.arrive(1, {half()}), backward_error);
  EXPECT_THROW(pass.run(), backward_error);
  EXPECT_NE(pass.failure(), nullptr);
}

struct wrong_shape : ta::Function<wrong_shape> {
  static at::Tensor forward(ta::AutogradContext*, at::Tensor x) { return x * 2; }
  static variable_list backward(ta::AutogradContext*, variable_list) { return {torch::ones({7})}; }
};

TEST(executors, check_what_nodes_return) {
  const auto x = torch::ones({2}, torch::requires_grad());
  executor pass(plan_of({wrong_shape::apply(x)}), {}, ignore);
  pass.arrive(0, {torch::ones({2})});
  const auto text = text_of([&] { pass.run(); });
  EXPECT_NE(text.find("returned an invalid gradient at index 0"), std::string::npos) << text;
}

TEST(executors, name_the_operation_that_made_nan_in_anomaly_mode) {
  const auto x = torch::zeros({2}, torch::requires_grad());
  const auto y = torch::sqrt(x) * 0;
  const ta::DetectAnomalyGuard anomaly;
  executor pass(plan_of({y}), {}, ignore);
  pass.arrive(0, {torch::ones({2})});
  const auto text = text_of([&] { pass.run(); });
  EXPECT_NE(text.find("'SqrtBackward0' returned nan values in its 0th output"), std::string::npos)
      << text;
}

TEST(executors, report_what_only_the_engine_can) {
  const auto x = torch::ones({2}, torch::requires_grad());
  int callbacks = 0;
  const callback here(
      [&] { ta::Engine::get_default_engine().queue_callback([&] { ++callbacks; }); });
  const auto plan = plan_of({calls_back::apply(x)});
  executor pass(plan, {}, ignore);
  pass.arrive(0, {torch::ones({2})});
  const auto text = text_of([&] { pass.run(); });
  EXPECT_NE(text.find("run_in_engine"), std::string::npos) << text;
  EXPECT_EQ(callbacks, 0);
  autograd::run_in_engine(plan, {{torch::ones({2})}}, {}, ignore);
  EXPECT_EQ(callbacks, 1);
}

TEST(executors, do_not_run_within_a_pass_of_the_engine_or_themselves) {
  const auto x = torch::ones({2}, torch::requires_grad());
  const auto y = x * 2;
  executor inner(plan_of({y}), {}, ignore);
  inner.arrive(0, {torch::ones({2})});
  {
    const callback here([&] { EXPECT_THROW(inner.run(), invalid_argument); });
    calls_back::apply(x).sum().backward();
  }
  EXPECT_TRUE(inner.run()) << "nothing has happened to it";
  executor outer(plan_of({calls_back::apply(x)}), {}, ignore);
  outer.arrive(0, {torch::ones({2})});
  int calls = 0;
  const callback here([&] {
    ++calls;
    EXPECT_THROW(outer.run(), invalid_argument);
  });
  EXPECT_TRUE(outer.run());
  EXPECT_EQ(calls, 1);
}

struct after_accumulation : ta::PostAccumulateGradHook {
  void operator()(const at::Tensor&) override {}
};

TEST(executors, refuse_hooks_that_wait_for_grad) {
  const auto x = torch::ones({2}, torch::requires_grad());
  const auto plan = plan_of({x * 2});
  executor before(plan, {true, false}, ignore);
  before.arrive(0, {torch::ones({2})});
  ta::impl::set_post_acc_grad_hooks(x, std::make_unique<after_accumulation>());
  executor after(plan, {true, false}, ignore);
  after.arrive(0, {torch::ones({2})});
  EXPECT_NE(text_of([&] { after.run(); }).find("register_hook"), std::string::npos);
  EXPECT_THROW(autograd::run_in_engine(plan, {{torch::ones({2})}}, {}, ignore), invalid_argument);
  EXPECT_NE(text_of([&] { before.run(); }).find("register_hook"), std::string::npos);
}

TEST(executors, leave_the_threads_settings_as_they_were) {
  const auto x = torch::ones({2}, torch::requires_grad());
  bool in_node = true, in_sink = true;
  const callback here([&] { in_node = at::GradMode::is_enabled(); });
  for (const bool create_graph : {false, true}) {
    executor pass(plan_of({calls_back::apply(x)}), {true, create_graph},
                  [&](const at::Tensor&, at::Tensor g) {
                    in_sink = at::GradMode::is_enabled();
                    EXPECT_EQ(g.requires_grad(), false);
                  });
    const at::NoGradGuard off;
    pass.arrive(0, {torch::ones({2})});
    EXPECT_TRUE(pass.run());
    EXPECT_FALSE(at::GradMode::is_enabled());
    EXPECT_EQ(in_sink, create_graph);
    EXPECT_EQ(in_node, create_graph);
  }
}

TEST(executors, take_the_settings_of_the_thread_that_made_them) {
  const auto x = torch::ones({2}, torch::requires_grad());
  bool inference = true;
  const callback here([&] { inference = c10::InferenceMode::is_enabled(); });
  executor pass(plan_of({calls_back::apply(x)}), {}, ignore);
  int sunk = 0;
  executor sum(plan_of({x, x}), {}, [&](const at::Tensor&, at::Tensor g) {
    ++sunk;
    EXPECT_FALSE(g.is_inference());
  });
  const auto gradient = torch::ones({2});
  const c10::InferenceMode on;
  pass.arrive(0, {torch::ones({2})});
  EXPECT_TRUE(pass.run());
  EXPECT_FALSE(inference);
  sum.arrive(0, {gradient});
  sum.arrive(1, {gradient});
  EXPECT_TRUE(sum.run());
  EXPECT_EQ(sunk, 1);
  EXPECT_TRUE(c10::InferenceMode::is_enabled());
}

TEST(executors, go_through_deep_graphs_and_let_go_of_them) {
  constexpr int depth = 100'000;
  const auto x = torch::ones({1}, torch::requires_grad());
  leaf_gradients got;
  {
    auto y = x + 0;
    for (int i = 1; i < depth; ++i) y = y + 1;
    executor pass(plan_of({y}), {}, sink_into(got, {x}));
    y.reset();  // the executor holds the graph alone now
    pass.arrive(0, {torch::full({1}, 4.0)});
    EXPECT_TRUE(pass.run());
    EXPECT_EQ(got[0].item<double>(), 4);
  }
  {
    auto y = x + 0;
    for (int i = 1; i < depth; ++i) y = y + 1;
    const executor never_run(plan_of({y}), {}, ignore);
    y.reset();
  }
  EXPECT_EQ(ta::impl::try_get_grad_accumulator(x), nullptr) << "the graph is gone";
}

TEST(executors, run_side_by_side_over_the_same_leaves_and_nodes) {
  constexpr int rounds = 300, threads = 2;
  const auto x = torch::randn({8, 8}, at::kDouble).requires_grad_();
  const auto w = torch::randn({8, 8}, at::kDouble).requires_grad_();
  const auto forward = [&](int i) { return torch::tanh(x.matmul(w) * (i + 1)) * w + x.exp(); };
  const auto shared = forward(0);
  const auto gradient = torch::randn({8, 8}, at::kDouble);
  const auto wanted = [&](const at::Tensor& y) { return ta::grad({y}, {x, w}, {gradient}, true); };
  std::vector<variable_list> expected(threads);
  for (int t = 0; t < threads; ++t) expected[t] = wanted(forward(t));
  const auto of_shared = wanted(shared);
  std::vector<int> right(threads, 0);
  std::vector<std::thread> at_once;
  for (int t = 0; t < threads; ++t)
    at_once.emplace_back([&, t] {
      const auto runs = [&](const at::Tensor& y, const variable_list& want) {
        leaf_gradients got;
        executor pass(plan_of({y, y}), {true, false}, sink_into(got, {x, w}));
        pass.arrive(0, {gradient * 0});
        pass.arrive(1, {gradient});
        return pass.run() && got[0].equal(want[0]) && got[1].equal(want[1]);
      };
      for (int i = 0; i < rounds; ++i)
        right[t] += runs(forward(t), expected[t]) && runs(shared, of_shared);
    });
  for (auto& one : at_once) one.join();
  EXPECT_EQ(right, std::vector<int>(threads, rounds));
}

}  // namespace
}  // namespace troupe::test
