// A tensor that was sent and not used has no gradient, as in one process.
// (PyTorch's distributed autograd has zeros, which go back through what has made the tensor.)

#include <torch/csrc/autograd/autograd.h>

#include "tests/autograd/context/no_contexts.hpp"
#include "tests/autograd/graphs/small_graphs.hpp"

namespace troupe::test {
namespace {

using autograd::context;
using autograd::pass_mode;

class unused_arguments : public on_networks {};
TROUPE_ON_NETWORKS(unused_arguments);

at::Tensor first_of(const at::Tensor& a, const at::Tensor&) { return 2 * a; }

TEST_P(unused_arguments, have_no_gradient) {
  auto nodes = start({"a", "b"});
  const auto alone = [](const at::Tensor& x, const at::Tensor& y) {
    return torch::autograd::grad({first_of(x, y).sum()}, {x, y}, {}, std::nullopt, false, true);
  };
  for (const auto mode : {pass_mode::smart, pass_mode::fast}) {
    const auto x = leaf(1), y = leaf(1);
    const context c(nodes[0]);
    c.backward({nodes[0].rpc_sync<&first_of>("b", x, y).sum()}, {.mode = mode});
    const auto got = c.get_gradients();
    const auto wanted = alone(x, y);
    EXPECT_TRUE(torch::equal(got[x], wanted[0]));
    EXPECT_FALSE(wanted[1].defined());
    EXPECT_FALSE(got.contains(y));
  }
  shut_down(nodes);
}

// Zeros times an infinite slope would be no numbers.
TEST_P(unused_arguments, are_not_gone_through) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(1), y = leaf(0);
  int gradients = 0;
  const auto root = y.sqrt();
  root.register_hook([&](const at::Tensor& g) { gradients += g.defined(); });
  {
    const context c(nodes[0]);
    c.backward({nodes[0].rpc_sync<&first_of>("b", x, root).sum()});
    EXPECT_EQ(c.get_gradients().size(), 1u);
    EXPECT_FALSE(c.get_gradients().contains(y));
  }
  EXPECT_EQ(gradients, 0);
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
