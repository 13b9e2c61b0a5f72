// Several trainers over the same parameters: their steps, and the backward passes of others.

#include "tests/optim/client/parameters.hpp"

namespace troupe::test {
namespace {

std::atomic<int> at_once{0}, most_at_once{0};
std::atomic<std::thread::id> last_stepped_on;

// Reads a parameter, takes its time, and writes it: whoever does so meanwhile is lost.
class slow_sgd : public torch::optim::Optimizer {
public:
  slow_sgd(const std::vector<torch::optim::OptimizerParamGroup>& groups,
           const torch::optim::SGDOptions& defaults)
      : Optimizer(groups, std::make_unique<torch::optim::SGDOptions>(defaults)) {}

  at::Tensor step(LossClosure) override {
    const at::NoGradGuard off;
    const int now = ++at_once;
    last_stepped_on = std::this_thread::get_id();
    for (int seen = most_at_once; seen < now && !most_at_once.compare_exchange_weak(seen, now);) {
    }
    for (auto& group : param_groups_)
      for (auto& p : group.params()) {
        if (!p.grad().defined()) continue;
        const auto before = p.clone();
        std::this_thread::sleep_for(1ms);
        p.copy_(before - group.options().get_lr() * p.grad());
      }
    --at_once;
    return {};
  }
};

}  // namespace
}  // namespace troupe::test

template <>
struct troupe::optimizer_traits<troupe::test::slow_sgd> : optimizer_traits<torch::optim::SGD> {};

namespace troupe::test {
namespace {

using namespace torch::optim;
using autograd::context;

class trainers : public on_networks {};
TROUPE_ON_NETWORKS(trainers);

at::Tensor squared_sum(const at::Tensor& w) { return (w * w).sum(); }

// Reads the parameter itself, or a snapshot.
at::Tensor square(const rref<at::Tensor>& w, bool from_snapshot) {
  return squared_sum(from_snapshot ? snapshot(w) : w.local_value());
}

// A trainer on its own node, which gets the optimizer: so many steps of -1.
void train(const distributed_optimizer<slow_sgd>& optimizer, const parameters& all_of, int steps) {
  const auto here = this_node();
  for (int i = 0; i < steps; ++i) {
    const context c(here);
    at::Tensor loss;
    for (const auto& w : all_of) {
      const auto one = here.rpc_sync<&times>(w.owner_name(), all(1), w);
      loss = loss.defined() ? loss + one : one;
    }
    c.backward({loss});
    optimizer.step(c);
  }
}

// The same with an optimizer of its own.
void train_alone(const parameters& all_of, int steps) {
  train(distributed_optimizer<slow_sgd>(all_of, SGDOptions(1)), all_of, steps);
}

TEST_P(trainers, lose_no_step_of_a_shared_optimizer) {
  auto nodes = start({"a", "b", "c", "d"});
  const auto there = spread(nodes[0], {"c", "d"}, {all(0), all(0)});
  {
    most_at_once = 0;
    const distributed_optimizer<slow_sgd> optimizer(there, SGDOptions(1));
    const auto one = nodes[0].rpc_async<&train>("a", optimizer, there, 100);
    const auto two = nodes[0].rpc_async<&train>("b", optimizer, there, 100);
    one.get();
    two.get();
    EXPECT_LE(most_at_once, 2);  // one on each of two nodes
  }
  expect_equal(nodes[0], there, {all(-200), all(-200)});
  shut_down(nodes);
}

TEST_P(trainers, lose_no_step_of_optimizers_of_their_own) {
  auto nodes = start({"a", "b", "c"});
  const auto there = spread(nodes[0], {"c", "a"}, {all(0), all(0)});
  const auto one = nodes[0].rpc_async<&train_alone>("a", there, 100);
  const auto two = nodes[0].rpc_async<&train_alone>("b", there, 100);
  one.get();
  two.get();
  expect_equal(nodes[0], there, {all(-200), all(-200)});
  shut_down(nodes);
}

TEST_P(trainers, step_the_shard_of_their_own_node_themselves) {
  auto nodes = start({"a", "b"});
  const auto there = spread(nodes[0], {"a", "b"}, {all(2), all(2)});
  const auto me = std::this_thread::get_id();
  int steps = 0;
  const auto step_one = [&](const auto& optimizer, const rref<at::Tensor>& w) {
    const context c(nodes[0]);
    c.backward({nodes[0].rpc_sync<&times>(w.owner_name(), all(1), w)});
    optimizer.step(c);
    return last_stepped_on.load();
  };
  {
    const distributed_optimizer<slow_sgd> optimizer(there, SGDOptions(1));
    EXPECT_TRUE(eventually([&] {  // it may be beginning on another thread
      ++steps;
      return step_one(optimizer, there[0]) == me;
    }));
    EXPECT_NE(step_one(optimizer, there[1]), me);
  }
  expect_equal(nodes[0], there, {all(2 - steps), all(1)});
  shut_down(nodes);
}

at::Tensor gradient_there(std::uint64_t id, const rref<at::Tensor>& w) {
  return autograd::get_gradients(this_node(), id)[w.local_value()];
}

// Another trainer's step, in a context of its own.
template <class Optimizer>
void step_once(const distributed_optimizer<Optimizer>& optimizer, const rref<at::Tensor>& w) {
  const context c(this_node());
  c.backward({this_node().rpc_sync<&times>(w.owner_name(), all(1), w)});
  optimizer.step(c);
}

// A forward, B step, A backward: the weight is 3 for A, and then 2. Returns A's gradient.
template <class Optimizer, class Options>
at::Tensor stale_gradient(std::vector<node>& nodes, const Options& options, step_mode mode,
                          bool from_snapshot) {
  const auto w = nodes[0].rpc_sync<&own>("c", all(3));
  const distributed_optimizer<Optimizer> a({w}, options, {.mode = mode});
  const context of_a(nodes[0]);
  const auto loss = nodes[0].rpc_sync<&square>("c", w, from_snapshot);
  {
    const autograd::within none(0);
    nodes[0].rpc_sync<&step_once<Optimizer>>("b", a, w);
  }
  EXPECT_TRUE(torch::allclose(nodes[0].rpc_sync<&value_of>("c", w), all(2)));
  of_a.backward({loss});
  return nodes[0].rpc_sync<&gradient_there>("c", of_a.id(), w);
}

TEST_P(trainers, backward_after_a_step_of_another_uses_the_new_weights_in_turn) {
  auto nodes = start({"a", "b", "c"});
  const auto mode = step_mode::in_turn;
  // In silence, with whichever optimizer: libtorch's own Adam would make it throw.
  EXPECT_TRUE(torch::allclose(stale_gradient<SGD>(nodes, SGDOptions(1), mode, false), all(4)));
  EXPECT_TRUE(torch::allclose(stale_gradient<Adam>(nodes, AdamOptions(1), mode, false), all(4)));
  EXPECT_TRUE(torch::equal(stale_gradient<SGD>(nodes, SGDOptions(1), mode, true), all(6)));
  shut_down(nodes);
}

TEST_P(trainers, backward_after_a_step_of_another_is_consistent_if_asked_or_throws) {
  auto nodes = start({"a", "b", "c"});
  const auto mode = step_mode::consistent;
  EXPECT_TRUE(torch::equal(stale_gradient<SGD>(nodes, SGDOptions(1), mode, true), all(6)));
  EXPECT_TRUE(torch::equal(stale_gradient<Adam>(nodes, AdamOptions(1), mode, true), all(6)));
  const auto throws = [&](const std::function<void()>& f) {
    try {
      f();
    } catch (const error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(throws([&] { stale_gradient<SGD>(nodes, SGDOptions(1), mode, false); }),
              testing::HasSubstr("modified by an inplace operation"));
  EXPECT_THAT(throws([&] { stale_gradient<Adam>(nodes, AdamOptions(1), mode, false); }),
              testing::HasSubstr("modified by an inplace operation"));
  shut_down(nodes);
}

TEST_P(trainers, snapshots_stay_while_many_steps_are_taken) {
  auto nodes = start({"a", "b"});
  const auto there = spread(nodes[0], {"b"}, {all(0, 1000)});
  const distributed_optimizer<SGD> optimizer(there, SGDOptions(1));
  std::atomic<bool> done = false;
  auto stepping = std::async(std::launch::async, [&] {
    for (int i = 0; i < 100; ++i) {
      const context c(nodes[0]);
      c.backward({nodes[0].rpc_sync<&times>("b", all(1, 1000), there[0])});
      optimizer.step(c);
    }
    done = true;
  });
  // The nodes share the process: the same memory.
  const auto torn = [](const rref<at::Tensor>& w) {
    const auto now = snapshot(w);
    const auto first = now[0].item<double>();
    std::this_thread::sleep_for(100us);
    return !torch::equal(now, all(first, 1000));
  };
  while (!done) EXPECT_FALSE(nodes[0].rpc_sync("b", torn, there[0]));
  stepping.get();
  expect_equal(nodes[0], there, {all(-100, 1000)});
  shut_down(nodes);
}

TEST_P(trainers, hogwild_steps_run_side_by_side) {
  auto nodes = start({"a", "b", "c", "d"});
  const auto there = spread(nodes[0], {"c", "d"}, {all(0), all(0)});
  {
    most_at_once = 0;
    const distributed_optimizer<slow_sgd> optimizer(there, SGDOptions(1),
                                                    {.mode = step_mode::hogwild});
    // Until three have met, on two nodes: which is a matter of time.
    int rounds = 0;
    EXPECT_TRUE(eventually([&] {
      ++rounds;
      std::vector<future<void>> all_of;
      for (const auto* name : {"a", "b", "a", "b"})
        all_of.push_back(nodes[0].rpc_async<&train>(name, optimizer, there, 50));
      for (const auto& one : all_of) one.get();
      return most_at_once > 2;
    }));
    // As many as one after the other, but for those that met.
    for (const auto& w : there) {
      const auto now = nodes[0].rpc_sync<&value_of>(w.owner_name(), w)[0].item<double>();
      EXPECT_LE(now, -50);
      EXPECT_GE(now, -200 * rounds);
    }
    EXPECT_THROW(optimizer.step(12345), unknown_context);
  }
  EXPECT_TRUE(eventually([&] { return nodes[2].debug_info().actors_held == 0; }));
  shut_down(nodes);
}

void set_rate(const distributed_optimizer<SGD>& optimizer, std::size_t group, double rate) {
  optimizer.set_lr(group, rate);
}

TEST_P(trainers, set_the_rates_of_their_groups_alone) {
  auto nodes = start({"a", "b", "c"});
  const auto there = spread(nodes[0], {"c"}, {all(0), all(0)});
  using group = parameter_group<SGDOptions>;
  const distributed_optimizer<SGD> optimizer(std::vector<group>{{{there[0]}}, {{there[1]}}},
                                             SGDOptions(1));
  const auto step = [&] {
    const context c(nodes[0]);
    c.backward({nodes[0].rpc_sync<&times>("c", all(1), there[0]) +
                nodes[0].rpc_sync<&times>("c", all(1), there[1])});
    optimizer.step(c);
  };
  nodes[0].rpc_sync<&set_rate>("b", optimizer, std::size_t{1}, 0.25);
  optimizer.set_lr(0, 0.5);
  step();
  expect_equal(nodes[0], there, {all(-0.5), all(-0.25)});
  // The rate that this trainer has set before counts again, since another one has changed it.
  nodes[0].rpc_sync<&set_rate>("b", optimizer, std::size_t{0}, 4.);
  optimizer.set_lr(0, 0.5);
  step();
  expect_equal(nodes[0], there, {all(-1), all(-0.5)});
  shut_down(nodes);
}

TEST_P(trainers, keep_the_last_of_two_rates_that_have_overtaken_one_another) {
  auto nodes = start({"a", "b"});
  detail::shard_plan plan;
  plan.parameters.push_back({0, 0, spread(nodes[0], {"b"}, {all(0)})[0]});
  plan.defaults = detail::values_of(SGDOptions(1));
  plan.groups = {plan.defaults};
  const auto shard = nodes[0].rpc_sync<&detail::shard_maker<SGD>::make_shard>("b", plan);
  const auto rate_after = [&](std::uint64_t from, std::uint64_t number, double rate) {
    request(shard, detail::set_rates{{from, number, {{0, rate}}}}).get();
    const auto state = request(shard, detail::get_state()).get();
    return detail::options_from(detail::kind_of<SGD>, state.groups.at(0))->get_lr();
  };
  EXPECT_EQ(rate_after(7, 2, 0.5), 0.5);
  EXPECT_EQ(rate_after(7, 1, 0.25), 0.5);
  EXPECT_EQ(rate_after(8, 1, 0.125), 0.125);
  EXPECT_THROW(request(shard, detail::set_rates{{8, 2, {{1, 1.}}}}).get(), invalid_argument);
  shut_down(nodes);
}

template <class Optimizer, class Options>
void expect_hogwild_parity(const node& here, const Options& options) {
  const auto start_at = random_tensors(8, 3);
  const auto there = spread(here, {"b"}, start_at);
  const auto leaves = as_leaves(start_at);
  Optimizer local(leaves, options);
  const distributed_optimizer<Optimizer> optimizer(there, options, {.mode = step_mode::hogwild});
  for (int i = 0; i < 4; ++i) {
    step_both(here, optimizer, there, local, leaves, random_tensors(70 + i, 3));
    expect_equal(here, there, leaves, std::string(type_name<Optimizer>()));
    optimizer.set_lr(0.1 / (i + 2));
    local.param_groups()[0].options().set_lr(0.1 / (i + 2));
  }
}

TEST_P(trainers, a_hogwild_trainer_alone_equals_the_local_optimizer) {
  auto nodes = start({"a", "b"});
  expect_hogwild_parity<Adam>(nodes[0], AdamOptions(0.1));
  expect_hogwild_parity<adadelta>(nodes[0], adadelta_options(0.1));
  expect_hogwild_parity<adamax>(nodes[0], adamax_options(0.1));
  expect_hogwild_parity<nadam>(nodes[0], nadam_options(0.1));
  expect_hogwild_parity<rprop>(nodes[0], rprop_options(0.1));
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
