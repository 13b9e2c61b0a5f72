// What can go wrong with a distributed optimizer, and what it reports then.

#include "tests/autograd/context/no_contexts.hpp"
#include "tests/optim/client/parameters.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/autograd/context/context_table.hpp"

namespace troupe::test {
namespace {

// Waits at the test's door before it steps.
class held_sgd : public torch::optim::SGD {
public:
  using SGD::SGD;
  at::Tensor step(LossClosure closure) override {
    shared_door::current()->pass();
    return SGD::step(std::move(closure));
  }
};

}  // namespace
}  // namespace troupe::test

template <>
struct troupe::optimizer_traits<troupe::test::held_sgd> : optimizer_traits<torch::optim::SGD> {};

namespace troupe::test {
namespace {

using namespace torch::optim;
using autograd::context;

class mishaps : public on_networks {};
TROUPE_ON_NETWORKS(mishaps);

template <class Error = invalid_argument>
std::string text_of(const std::function<void()>& f) {
  return fault_of<Error>(f).text;
}

// A pass over these parameters, of which each gets the gradient 1.
void pass_over(const context& c, const parameters& some) {
  at::Tensor loss;
  for (const auto& w : some) {
    const auto one = c.owner().rpc_sync<&times>(w.owner_name(), all(1), w);
    loss = loss.defined() ? loss + one : one;
  }
  c.backward({loss});
}

TEST_P(mishaps, report_why_they_cannot_be_made) {
  auto nodes = start({"a", "b", "c"});
  const auto there = spread(nodes[0], {"b", "c"}, {all(1), all(2)});
  const auto bad =
      fault_of<remote_error>([&] { distributed_optimizer<SGD>(there, SGDOptions(-1)); });
  EXPECT_EQ(bad.node, "b");
  EXPECT_THAT(bad.text, testing::HasSubstr("Invalid learning rate: -1"));
  EXPECT_THAT(text_of([&] { distributed_optimizer<adadelta>(there, adadelta_options().rho(2)); }),
              testing::HasSubstr("rho of troupe::adadelta is 2"));
  EXPECT_THAT(text_of([&] { distributed_optimizer<SGD>(parameters(), SGDOptions(1)); }),
              testing::HasSubstr("empty parameter list"));
  EXPECT_THAT(text_of([&] {
                distributed_optimizer<SGD>({there[0], there[0]}, SGDOptions(1));
              }),
              testing::HasSubstr("parameter 1 on b is in the list twice"));
  EXPECT_THAT(text_of([&] { distributed_optimizer<LBFGS>(there, LBFGSOptions()); }),
              testing::HasSubstr("these are on b, c"));
  const auto not_leaf = nodes[0].make_rref(all(1).requires_grad_() * 2);
  EXPECT_THAT(text_of([&] { distributed_optimizer<SGD>({not_leaf}, SGDOptions(1)); }),
              testing::HasSubstr("parameter 0 on a cannot be optimized: it is no leaf"));
  const auto twice = all(1).requires_grad_();
  EXPECT_THAT(text_of([&] {
                const parameters both = {nodes[0].make_rref(twice), nodes[0].make_rref(twice)};
                distributed_optimizer<SGD>(both, SGDOptions(1));
              }),
              testing::HasSubstr("parameter 1 on a is in the list twice"));
  EXPECT_THAT(text_of([&] { distributed_optimizer<SGD>({rref<at::Tensor>()}, SGDOptions(1)); }),
              testing::HasSubstr("parameter 0 is an rref to nothing"));
  EXPECT_THAT(text_of([&] {
                distributed_optimizer<SGD>({nodes[0].make_rref(at::Tensor())}, SGDOptions(1));
              }),
              testing::HasSubstr("parameter 0 on a cannot be optimized: it is undefined"));
  EXPECT_THAT(text_of([&] { distributed_optimizer<SGD>().step(1); }),
              testing::HasSubstr("has no parameters"));
  // A shard on a node that is not the owner.
  detail::shard_plan plan;
  plan.parameters.push_back({0, 0, there[0]});
  plan.defaults = detail::values_of(SGDOptions(1));
  plan.groups = {plan.defaults};
  EXPECT_THAT(text_of([&] { nodes[0].rpc_sync<&detail::shard_maker<SGD>::make_shard>("c", plan); }),
              testing::HasSubstr("parameter 0 on c cannot be stepped there: its owner is b"));
  shut_down(nodes);
}

TEST_P(mishaps, report_a_context_that_they_do_not_know) {
  auto nodes = start({"a", "b"});
  const auto there = spread(nodes[0], {"b"}, {all(1)});
  const distributed_optimizer<SGD> optimizer(there, SGDOptions(1));
  EXPECT_THROW(optimizer.step(12345), unknown_context);
  std::uint64_t id = 0;
  {
    const context c(nodes[0]);
    id = c.id();
    c.backward({nodes[0].rpc_sync<&times>("b", all(1), there[0])});
  }
  expect_no_contexts(nodes);  // its end has come to b
  EXPECT_THROW(optimizer.step(id), unknown_context);
  expect_equal(nodes[0], there, {all(1)});
  const context c(nodes[0]);  // it goes on
  c.backward({nodes[0].rpc_sync<&times>("b", all(1), there[0])});
  optimizer.step(c);
  expect_equal(nodes[0], there, {all(0)});
  shut_down(nodes);
}

// An owner has been notified of the end before the trainer's node.
TEST_P(mishaps, report_a_context_that_has_ended_on_an_owner) {
  auto nodes = start({"a", "b", "c"});
  const auto there = spread(nodes[0], {"b", "c"}, {all(1), all(2)});
  const distributed_optimizer<SGD> optimizer(there, SGDOptions(1));
  const context c(nodes[0]);
  pass_over(c, there);
  autograd::detail::context_table::of(nodes[1].core()).end(c.id(), "its scope has ended");
  EXPECT_EQ(fault_of<unknown_context>([&] { optimizer.step(c); }).node, "b");
  const autograd::within none(0);
  expect_equal(nodes[0], {there[0]}, {all(1)});
  shut_down(nodes);
}

TEST_P(mishaps, a_step_without_any_gradient_is_one) {
  auto nodes = start({"a", "b", "c"});
  const auto there = spread(nodes[0], {"b", "c"}, {all(1), all(2)});
  const auto other = spread(nodes[0], {"b"}, {all(3)});
  const distributed_optimizer<SGD> optimizer(there, SGDOptions(1));
  const context c(nodes[0]);
  const auto nothing = [&] { return text_of([&] { optimizer.step(c); }); };
  EXPECT_THAT(nothing(), testing::HasSubstr("none of the optimizer's 2 parameters has a gradient"));
  pass_over(c, other);
  EXPECT_THAT(nothing(), testing::HasSubstr("none of the optimizer's 2 parameters has a gradient"));
  EXPECT_THROW(optimizer.step_async(c).get(), invalid_argument);
  pass_over(c, {there[0]});
  optimizer.step(c);
  expect_equal(nodes[0], there, {all(0), all(2)});
  const distributed_optimizer<LBFGS> lbfgs({there[0]}, LBFGSOptions());
  EXPECT_THAT(text_of([&] { lbfgs.step([](const context&) { return all(1, 1).sum(); }); }),
              testing::HasSubstr("the closure has left no gradient in its context"));
  shut_down(nodes);
}

TEST_P(mishaps, a_single_missing_gradient_is_one_if_asked) {
  auto nodes = start({"a", "b", "c"});
  const auto there = spread(nodes[0], {"b", "b", "c"}, {all(1), all(2), all(3)});
  for (const auto mode : {step_mode::in_turn, step_mode::hogwild}) {
    const distributed_optimizer<SGD> optimizer(there, SGDOptions(1),
                                               {.mode = mode, .needs_all_gradients = true});
    const context c(nodes[0]);
    pass_over(c, {there[1], there[2]});
    EXPECT_THAT(text_of([&] { optimizer.step(c); }),
                testing::HasSubstr("parameter 0 on b has no gradient in the context"));
    const context without_c(nodes[0]);
    pass_over(without_c, {there[0], there[1]});
    EXPECT_EQ(fault_of<invalid_argument>([&] { optimizer.step(without_c); }).text,
              "no parameter on c has a gradient: the context has not reached that node");
    const context whole(nodes[0]);
    pass_over(whole, there);
    optimizer.step(whole);
  }
  // Of each pair of failed steps the shard that had all of its gradients has stepped.
  expect_equal(nodes[0], there, {all(-3), all(-2), all(-1)});
  shut_down(nodes);
}

void replace_data(const rref<at::Tensor>& w, const at::Tensor& value) {
  w.local_value().set_data(value.clone());
}

TEST_P(mishaps, name_the_parameter_whose_gradient_does_not_fit) {
  auto nodes = start({"a", "b"});
  const auto there = spread(nodes[0], {"b"}, {all(1), all(1)});
  const distributed_optimizer<SGD> optimizer(there, SGDOptions(1));
  const context c(nodes[0]);
  c.backward({nodes[0].rpc_sync<&times>("b", all(1), there[0]) +
              nodes[0].rpc_sync<&times>("b", all(1), there[1])});
  nodes[0].rpc_sync<&replace_data>("b", there[1], all(1, 4));
  const auto why = fault_of<invalid_argument>([&] { optimizer.step(c); });
  EXPECT_THAT(why.text, testing::HasSubstr("the gradient of parameter 1 on b has the shape [3], "
                                           "but the parameter [4]"));
  expect_equal(nodes[0], there, {all(1), all(1, 4)});
  nodes[0].rpc_sync<&replace_data>("b", there[1], all(1).to(torch::kFloat));
  EXPECT_THAT(text_of([&] { optimizer.step(c); }),
              testing::HasSubstr("the gradient of parameter 1 on b is double on cpu, but the "
                                 "parameter float on cpu"));
  // The shard follows a parameter to its new memory.
  nodes[0].rpc_sync<&replace_data>("b", there[1], all(5));
  optimizer.step(c);
  expect_equal(nodes[0], there, {all(0), all(4)});
  shut_down(nodes);
}

TEST_P(mishaps, step_the_others_when_an_owner_is_lost) {
  auto nodes = start({"a", "b", "c"});
  const auto there = spread(nodes[0], {"b", "c"}, {all(1), all(2)});
  const distributed_optimizer<SGD> optimizer(there, SGDOptions(1));
  const context c(nodes[0]);
  c.backward({nodes[0].rpc_sync<&times>("b", all(1), there[0]) +
              nodes[0].rpc_sync<&times>("c", all(1), there[1])});
  nodes[1].shutdown(false);
  EXPECT_TRUE(eventually([&] { return nodes[0].world_size() == 2; }));
  EXPECT_THROW(optimizer.step(c), peer_lost);
  EXPECT_TRUE(torch::equal(nodes[0].rpc_sync<&value_of>("c", there[1]), all(1)));
  nodes.erase(nodes.begin() + 1);
  shut_down(nodes);
}

TEST_P(mishaps, an_owner_is_lost_in_the_middle_of_a_step) {
  auto nodes = start({"a", "b", "c"});
  const auto there = spread(nodes[0], {"b", "c"}, {all(1), all(2)});
  const shared_door door;
  const distributed_optimizer<held_sgd> optimizer(there, SGDOptions(1));
  const context c(nodes[0]);
  pass_over(c, there);
  const auto done = optimizer.step_async(c);
  ASSERT_TRUE(door->wait_for(2));
  const auto until_b_ends = nodes[1].sleep_for(24h);
  auto ending = std::async(std::launch::async, [&] { nodes[1].shutdown(false); });
  EXPECT_THROW(until_b_ends.get(), not_initialized);  // from now on b answers nobody
  door->open();
  EXPECT_THROW(done.get(), peer_lost);
  EXPECT_TRUE(torch::equal(nodes[0].rpc_sync<&value_of>("c", there[1]), all(1)));
  ending.get();
  nodes.erase(nodes.begin() + 1);
  shut_down(nodes);
}

TEST_P(mishaps, an_owner_is_lost_while_the_closure_runs) {
  auto nodes = start({"a", "b"});
  const auto there = spread(nodes[0], {"b"}, {all(1)});
  const distributed_optimizer<LBFGS> optimizer(there, LBFGSOptions());
  EXPECT_THROW(optimizer.step([&](const context& c) {
    pass_over(c, there);
    nodes[1].shutdown(false);
    EXPECT_TRUE(eventually([&] { return nodes[0].world_size() == 1; }));
    return all(1, 1).sum();
  }),
               peer_lost);
  nodes.pop_back();
  shut_down(nodes);
}

TEST_P(mishaps, an_optimizer_goes_in_the_middle_of_its_step) {
  auto nodes = start({"a", "b"});
  const auto there = spread(nodes[0], {"b"}, {all(2)});
  for (const auto mode : {step_mode::in_turn, step_mode::hogwild}) {
    const shared_door door;
    std::optional<distributed_optimizer<held_sgd>> optimizer;
    optimizer.emplace(there, SGDOptions(1), optimizer_settings{.mode = mode});
    const context c(nodes[0]);
    pass_over(c, there);
    const auto done = optimizer->step_async(c);
    ASSERT_TRUE(door->wait_for(1));
    optimizer.reset();
    door->open();
    done.get();
    EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().actors_held == 0; }));
  }
  expect_equal(nodes[0], there, {all(0)});
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
