// Distributed optimizers do what libtorch's do, wherever the parameters are, and report what is
// wrong.

#include <torch/optim/schedulers/reduce_on_plateau_scheduler.h>
#include <torch/optim/schedulers/step_lr.h>

#include "tests/optim/client/parameters.hpp"

namespace troupe::test {
namespace {

using namespace torch::optim;
using autograd::context;

class optimizers : public on_networks {};
TROUPE_ON_NETWORKS(optimizers);

template <class Optimizer, class Options>
void expect_parity(const node& here, const Options& options, const std::string& what) {
  const auto start = random_tensors(1, 5);
  const auto there = spread(here, {"b", "c", "a"}, start);
  const auto leaves = as_leaves(start);
  Optimizer local(leaves, options);
  const distributed_optimizer<Optimizer> optimizer(there, options);
  EXPECT_EQ(optimizer.owners(), (std::vector<std::string>{"b", "c", "a"}));
  for (int i = 0; i < 6; ++i) {
    auto xs = random_tensors(10 + i, 5);
    if (i % 3 == 1) xs[3] = at::Tensor();  // now and then one has no gradient
    step_both(here, optimizer, there, local, leaves, xs);
    expect_equal(here, there, leaves, what);
  }
  EXPECT_FALSE(torch::equal(leaves[0], start[0]));
  EXPECT_FALSE(here.rpc_sync<&has_grad>("b", there[0]));
}

TEST_P(optimizers, equal_the_local_ones_to_the_last_bit) {
  auto nodes = start({"a", "b", "c"});
  const auto& a = nodes[0];
  expect_parity<SGD>(a, SGDOptions(0.05), "SGD");
  expect_parity<SGD>(a, SGDOptions(0.05).momentum(0.9).dampening(0.1).weight_decay(0.01),
                     "momentum");
  expect_parity<SGD>(a, SGDOptions(0.05).momentum(0.9).nesterov(true), "nesterov");
  expect_parity<Adam>(a, AdamOptions(0.1).betas({0.8, 0.9}).weight_decay(0.1), "Adam");
  expect_parity<Adam>(a, AdamOptions(0.1).amsgrad(true), "amsgrad");
  expect_parity<AdamW>(a, AdamWOptions(0.1).weight_decay(0.2), "AdamW");
  expect_parity<AdamW>(a, AdamWOptions(0.1).amsgrad(true).eps(1e-3), "AdamW amsgrad");
  expect_parity<Adagrad>(a, AdagradOptions(0.1).lr_decay(0.1).initial_accumulator_value(0.5),
                         "Adagrad");
  expect_parity<RMSprop>(a, RMSpropOptions(0.1).momentum(0.5).centered(true), "RMSprop");
  expect_parity<adadelta>(a, adadelta_options().rho(0.8).weight_decay(0.1), "adadelta");
  expect_parity<adamax>(a, adamax_options(0.1).betas({0.8, 0.9}).weight_decay(0.1), "adamax");
  expect_parity<adamax>(a, adamax_options(0.1).maximize(true), "adamax maximize");
  expect_parity<nadam>(a, nadam_options(0.1).momentum_decay(0.1), "nadam");
  expect_parity<nadam>(a, nadam_options(0.1).weight_decay(0.2).decoupled_weight_decay(true),
                       "nadam decoupled");
  expect_parity<rprop>(a, rprop_options(0.1).etas({0.4, 1.3}).step_sizes({1e-3, 0.3}), "rprop");
  shut_down(nodes);
}

TEST_P(optimizers, leave_parameters_without_gradients_as_they_are) {
  auto nodes = start({"a", "b", "c"});
  const auto there = spread(nodes[0], {"b", "b", "c"}, {all(1), all(2), all(3)});
  const distributed_optimizer<SGD> optimizer(there, SGDOptions(1).weight_decay(1));
  const context c(nodes[0]);
  c.backward({nodes[0].rpc_sync<&times>("b", all(1), there[0])});
  optimizer.step(c);  // c does not know the context
  expect_equal(nodes[0], there, {all(-1), all(2), all(3)});
  shut_down(nodes);
}

TEST_P(optimizers, leave_the_gradients_of_the_context_alone) {
  auto nodes = start({"a", "b"});
  const auto w = nodes[0].make_rref(all(2).requires_grad_());
  const distributed_optimizer<SGD> optimizer(
      {w}, SGDOptions(1).momentum(0.9).nesterov(true).weight_decay(0.1));
  w.local_value().mutable_grad() = all(100);  // of the user's
  const context c(nodes[0]);
  c.backward({nodes[0].rpc_sync<&times>("a", all(3), w)});
  const auto before = c.get_gradients()[w.local_value()].clone();
  optimizer.step(c);
  optimizer.step(c);
  EXPECT_TRUE(torch::equal(c.get_gradients()[w.local_value()], before));
  EXPECT_TRUE(torch::equal(w.local_value().grad(), all(100)));
  shut_down(nodes);
}

TEST_P(optimizers, have_one_shard_per_owner_until_they_go) {
  auto nodes = start({"a", "b", "c"});
  const auto there = spread(nodes[0], {"b", "c", "b", "a"}, {all(1), all(2), all(3), all(4)});
  std::vector<std::size_t> before;
  for (const auto& n : nodes) before.push_back(n.system().registry().running());
  {
    const distributed_optimizer<Adam> optimizer(there, AdamOptions());
    const auto copy = optimizer;
    EXPECT_EQ(nodes[1].debug_info().actors_held, 1u);
    EXPECT_EQ(nodes[2].debug_info().actors_held, 1u);
    for (std::size_t i = 0; i < nodes.size(); ++i)
      EXPECT_EQ(nodes[i].system().registry().running(), before[i] + 1) << i;
  }
  for (std::size_t i = 0; i < nodes.size(); ++i)
    EXPECT_TRUE(eventually([&] {
      return nodes[i].system().registry().running() == before[i] &&
             nodes[i].debug_info().actors_held == 0;
    })) << i;
  shut_down(nodes);
}

TEST_P(optimizers, groups_have_options_of_their_own) {
  auto nodes = start({"a", "b", "c"});
  const auto start_at = random_tensors(3, 4);
  const auto there = spread(nodes[0], {"b", "c"}, start_at);
  const auto leaves = as_leaves(start_at);
  const auto special = SGDOptions(0.5).momentum(0.5);
  std::vector<OptimizerParamGroup> local_groups;
  local_groups.emplace_back(std::vector<at::Tensor>{leaves[0]});
  local_groups.emplace_back(std::vector<at::Tensor>{leaves[1], leaves[2], leaves[3]},
                            std::make_unique<SGDOptions>(special));
  SGD local(local_groups, SGDOptions(0.1));
  using group = parameter_group<SGDOptions>;
  const distributed_optimizer<SGD> optimizer(
      std::vector<group>{{{there[0]}}, {{there[1], there[2], there[3]}, special}}, SGDOptions(0.1));
  EXPECT_EQ(optimizer.lr(0), 0.1);
  EXPECT_EQ(optimizer.lr(1), 0.5);
  for (int i = 0; i < 4; ++i) {
    step_both(nodes[0], optimizer, there, local, leaves, random_tensors(20 + i, 4));
    expect_equal(nodes[0], there, leaves);
    if (i != 1) continue;
    optimizer.set_lr(0, 0.3);
    local.param_groups()[0].options().set_lr(0.3);
  }
  EXPECT_THROW(optimizer.set_lr(2, 0.1), invalid_argument);
  shut_down(nodes);
}

TEST_P(optimizers, follow_the_schedulers_of_libtorch) {
  auto nodes = start({"a", "b", "c"});
  const auto start_at = random_tensors(4, 3);
  const auto there = spread(nodes[0], {"b", "c", "a"}, start_at);
  const auto leaves = as_leaves(start_at);
  Adam local(leaves, AdamOptions(0.1));
  const distributed_optimizer<Adam> optimizer(there, AdamOptions(0.1));
  StepLR local_schedule(local, 2, 0.5), schedule(optimizer, 2, 0.5);
  ReduceLROnPlateauScheduler local_plateau(local), plateau(optimizer);
  for (int i = 0; i < 7; ++i) {
    step_both(nodes[0], optimizer, there, local, leaves, random_tensors(30 + i, 3));
    expect_equal(nodes[0], there, leaves);
    local_schedule.step();
    schedule.step();
    local_plateau.step(static_cast<float>(i));
    plateau.step(static_cast<float>(i));
  }
  EXPECT_LT(optimizer.lr(), 0.1);
  optimizer.set_lr(0);
  step_both(nodes[0], optimizer, there, local, leaves, random_tensors(40, 3));
  EXPECT_FALSE(torch::equal(value_of(there[2]), leaves[2]));
  shut_down(nodes);
}

TEST_P(optimizers, lbfgs_evaluates_at_the_caller) {
  auto nodes = start({"a", "b"});
  for (const bool searching : {false, true}) {
    const auto start_at = random_tensors(5, 2);
    const auto there = spread(nodes[0], {"b"}, start_at);
    const auto leaves = as_leaves(start_at);
    const auto xs = random_tensors(6, 2);
    auto options = LBFGSOptions(0.5).max_iter(5).history_size(4);
    if (searching) options.line_search_fn("strong_wolfe");
    LBFGS local(leaves, options);
    const distributed_optimizer<LBFGS> optimizer(there, options);
    const auto caller = std::this_thread::get_id();
    int calls = 0;
    for (int i = 0; i < 3; ++i) {
      int local_calls = 0;
      const auto wanted = local.step([&] {
        ++local_calls;
        local.zero_grad();
        const auto loss = loss_of(leaves, xs);
        loss.backward();
        return loss;
      });
      calls = 0;
      const auto loss = optimizer.step([&](const context& c) {
        EXPECT_EQ(std::this_thread::get_id(), caller);
        ++calls;
        const auto l = loss_of(nodes[0], there, xs);
        c.backward({l});
        return l;
      });
      EXPECT_EQ(calls, local_calls);
      EXPECT_TRUE(torch::equal(loss, wanted.detach()));
      expect_equal(nodes[0], there, leaves);
    }
    EXPECT_GT(calls, 1);
    EXPECT_THROW(optimizer.step(1), invalid_argument);
    EXPECT_THROW(
        optimizer.step([](const context&) -> at::Tensor { throw std::domain_error("no"); }),
        std::domain_error);
  }
  const auto there = spread(nodes[0], {"b"}, {all(1)});
  const distributed_optimizer<SGD> once(there, SGDOptions(1));
  once.step([&](const context& c) {
    const auto l = nodes[0].rpc_sync<&times>("b", all(1), there[0]);
    c.backward({l});
    return l;
  });
  expect_equal(nodes[0], there, {all(0)});
  for (const auto& n : nodes)
    EXPECT_TRUE(eventually([&] { return n.debug_info().autograd_contexts == 0; }));
  shut_down(nodes);
}

// A parameter that is not there for this trainer's context still gets a new rate.
TEST_P(optimizers, send_new_rates_to_shards_without_gradients) {
  auto nodes = start({"a", "b", "c"});
  const auto there = spread(nodes[0], {"b", "c"}, {all(1), all(1)});
  const distributed_optimizer<SGD> optimizer(there, SGDOptions(1));
  static_cast<torch::optim::Optimizer&>(optimizer).param_groups()[0].options().set_lr(0.5);
  const auto step_one = [&](const rref<at::Tensor>& w) {
    const context c(nodes[0]);
    c.backward({nodes[0].rpc_sync<&times>(w.owner_name(), all(1), w)});
    optimizer.step(c);
  };
  step_one(there[0]);
  step_one(there[1]);
  expect_equal(nodes[0], there, {all(0.5), all(0.5)});
  shut_down(nodes);
}

at::Tensor real_term(const at::Tensor& x, const at::Tensor& w) {
  const auto sum = (x * w).sum();
  return sum.is_complex() ? at::real(sum) : sum;
}
at::Tensor picked(const at::Tensor& indices, const at::Tensor& w) {
  return at::embedding(w, indices, -1, false, true).sum();  // its gradient is sparse
}

template <class Optimizer, auto Forward, class Options>
void expect_parity_of(const node& here, const Options& options, const at::Tensor& start,
                      const at::Tensor& x) {
  const auto there = spread(here, {"b"}, {start});
  const auto leaf = as_leaves({start})[0];
  Optimizer local({leaf}, options);
  const distributed_optimizer<Optimizer> optimizer(there, options);
  for (int i = 0; i < 3; ++i) {
    local.zero_grad();
    Forward(x, leaf).backward();
    local.step();
    const context c(here);
    c.backward({here.rpc_sync<Forward>("b", x, there[0])});
    optimizer.step(c);
    expect_equal(here, there, {leaf}, std::string(start.dtype().name()));
  }
  EXPECT_FALSE(torch::equal(leaf, start));
}

TEST_P(optimizers, step_half_complex_and_sparse) {
  auto nodes = start({"a", "b"});
  const auto& a = nodes[0];
  for (const auto type : {torch::kHalf, torch::kBFloat16, torch::kComplexDouble}) {
    const auto at_first = all(3).to(type), x = all(0.25).to(type);
    expect_parity_of<SGD, &real_term>(a, SGDOptions(0.5).momentum(0.5), at_first, x);
    expect_parity_of<Adam, &real_term>(a, AdamOptions(0.5), at_first, x);
    expect_parity_of<adadelta, &real_term>(a, adadelta_options(50), at_first, x);
    expect_parity_of<adamax, &real_term>(a, adamax_options(0.5), at_first, x);
    expect_parity_of<nadam, &real_term>(a, nadam_options(0.5), at_first, x);
    expect_parity_of<rprop, &real_term>(a, rprop_options(0.5), at_first, x);
  }
  const auto table = random_tensors(9, 6)[5];
  const auto some = torch::tensor({1, 3, 3, 0}, torch::kLong);
  expect_parity_of<SGD, &picked>(a, SGDOptions(0.5), table, some);
  expect_parity_of<Adagrad, &picked>(a, AdagradOptions(0.5), table, some);
  shut_down(nodes);
}

// Nor does the parameter before that with the sparse gradient.
template <class Optimizer>
void expect_no_step_with_sparse(const node& here) {
  const auto table = random_tensors(9, 6)[5];
  const auto there = spread(here, {"b"}, {all(1), table});
  const distributed_optimizer<Optimizer> optimizer(there,
                                                   typename optimizer_traits<Optimizer>::options());
  const context c(here);
  c.backward({here.rpc_sync<&times>("b", all(1), there[0]) +
              here.rpc_sync<&picked>("b", torch::tensor({1, 3}, torch::kLong), there[1])});
  EXPECT_THAT(
      fault_of<invalid_argument>([&] { optimizer.step(c); }).text,
      testing::HasSubstr(fmt::format("{} does not support sparse", type_name<Optimizer>())));
  expect_equal(here, there, {all(1), table}, std::string(type_name<Optimizer>()));
}

TEST_P(optimizers, change_nothing_where_a_gradient_may_not_be_sparse) {
  auto nodes = start({"a", "b"});
  expect_no_step_with_sparse<adadelta>(nodes[0]);
  expect_no_step_with_sparse<adamax>(nodes[0]);
  expect_no_step_with_sparse<nadam>(nodes[0]);
  expect_no_step_with_sparse<rprop>(nodes[0]);
  shut_down(nodes);
}

TEST_P(optimizers, step_hundreds_of_parameters) {
  auto nodes = start({"a", "b", "c"});
  std::vector<at::Tensor> at_first, xs;
  for (int i = 0; i < 300; ++i) {
    at_first.push_back(all(i));
    xs.push_back(i % 7 == 0 ? at::Tensor() : all(0.5 + i));
  }
  const auto there = spread(nodes[0], {"a", "b", "c"}, at_first);
  const auto leaves = as_leaves(at_first);
  AdamW local(leaves, AdamWOptions(0.1));
  const distributed_optimizer<AdamW> optimizer(there, AdamWOptions(0.1));
  for (int i = 0; i < 2; ++i) step_both(nodes[0], optimizer, there, local, leaves, xs);
  expect_equal(nodes[0], there, leaves);
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
