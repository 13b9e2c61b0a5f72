// A process that is forked from a trainer: contexts and optimizers of the parent's are no use to
// it.

#include "tests/forking.hpp"
#include "tests/optim/client/parameters.hpp"

namespace troupe::test {
namespace {

using namespace torch::optim;
using autograd::context;

class forked_trainers : public on_networks {};
TROUPE_ON_NETWORKS(forked_trainers);

template <class F>
bool refused(F&& f) {
  return refused_as_forked<not_initialized>(f);
}

TEST_P(forked_trainers, get_errors_and_the_parent_goes_on) {
  auto nodes = start({"a", "b"});
  const auto& a = nodes[0];
  auto there = spread(a, {"b"}, {all(1)});
  auto optimizer = std::make_unique<distributed_optimizer<SGD>>(there, SGDOptions(1));
  auto open = std::make_unique<context>(a);
  const auto loss = a.rpc_sync<&times>("b", all(1), there[0]);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(in_child([&] {
                int possible = 0;
                possible |= refused([&] { const context another(a); }) ? 0 : 1;
                possible |= refused([&] { open->backward({loss}); }) ? 0 : 2;
                possible |= refused([&] { optimizer->step(*open); }) ? 0 : 4;
                possible |=
                    refused([&] { distributed_optimizer<SGD>(there, SGDOptions(1)); }) ? 0 : 8;
                possible |= refused([&] { autograd::get_gradients(a, open->id()); }) ? 0 : 16;
                possible |= refused([&] { open->get_gradients(); }) ? 0 : 32;
                possible |= refused([&] { (void)optimizer->step_async(*open); }) ? 0 : 64;
                possible |= refused([&] { optimizer->lr(); }) ? 0 : 128;
                there.clear();
                optimizer.reset();
                open.reset();
                nodes.clear();
                return possible;
              }),
              0);
  }
  open->backward({loss});
  optimizer->step(*open);
  EXPECT_TRUE(torch::equal(a.rpc_sync<&value_of>("b", there[0]), all(0)));
  open.reset();
  optimizer.reset();
  there.clear();
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
