// When a step copies the memory of parameters that have snapshots.

#include "tests/optim/client/parameters.hpp"
#include "troupe/optim/shard/shared_memory.hpp"

namespace troupe::test {
namespace {

using namespace torch::optim;
using autograd::context;

class copies : public on_networks {};
TROUPE_ON_NETWORKS(copies);

const void* memory_of(const rref<at::Tensor>& w) { return w.local_value().const_data_ptr(); }

TEST_P(copies, are_made_only_of_parameters_with_gradients) {
  auto nodes = start({"a"});
  for (const auto mode : {step_mode::in_turn, step_mode::consistent, step_mode::hogwild}) {
    const auto there = spread(nodes[0], {"a"}, {all(2), all(2)});
    const distributed_optimizer<SGD> optimizer(there, SGDOptions(1), {.mode = mode});
    for (int step = 0; step < 2; ++step) {  // a first step and a later one lock in different ways
      const auto stepped = snapshot(there[0]), other = snapshot(there[1]);
      const auto *const stepped_memory = memory_of(there[0]), *const other_memory =
                                                                  memory_of(there[1]);
      const context c(nodes[0]);
      c.backward({nodes[0].rpc_sync<&times>("a", all(1), there[0])});
      optimizer.step(c);
      EXPECT_NE(memory_of(there[0]), stepped_memory);
      EXPECT_EQ(memory_of(there[1]), other_memory);
      EXPECT_TRUE(detail::has_aliases(there[1].local_value().storage()));
      EXPECT_TRUE(torch::equal(stepped, all(2 - step)));
      EXPECT_TRUE(torch::equal(other, all(2)));
    }
    expect_equal(nodes[0], there, {all(0), all(2)});
  }
  shut_down(nodes);
}

// The memory of `w` before and after a step with a closure, which drops the snapshot or keeps it.
bool copies_memory(const node& here, const rref<at::Tensor>& w, bool drops_snapshot) {
  const distributed_optimizer<LBFGS> optimizer({w}, LBFGSOptions(0.5).max_iter(2));
  std::optional<at::Tensor> now = snapshot(w);
  const auto before = w.local_value().detach().clone();
  const auto* const memory = memory_of(w);
  optimizer.step([&](const context& c) {
    if (drops_snapshot) now.reset();
    const auto loss = here.rpc_sync<&term>("a", all(1), w);
    c.backward({loss});
    return loss;
  });
  EXPECT_FALSE(torch::equal(w.local_value().detach(), before));
  if (now) {
    EXPECT_TRUE(torch::equal(now->detach(), before));
  }
  return memory_of(w) != memory;
}

TEST_P(copies, of_a_step_with_a_closure_are_made_after_it) {
  auto nodes = start({"a"});
  const auto there = spread(nodes[0], {"a"}, {all(1)});
  EXPECT_FALSE(copies_memory(nodes[0], there[0], true));
  EXPECT_TRUE(copies_memory(nodes[0], there[0], false));
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
