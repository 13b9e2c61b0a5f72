// Operators and functions called by their names take part in distributed autograd as others do.

#include "tests/autograd/context/no_contexts.hpp"
#include "tests/autograd/graphs/small_graphs.hpp"

namespace troupe::test {
namespace {

using autograd::context;
using autograd::pass_mode;
using autograd::pass_options;

class operators_in_contexts : public on_networks {};
TROUPE_ON_NETWORKS(operators_in_contexts);

constexpr pass_mode both_modes[] = {pass_mode::smart, pass_mode::fast};

at::Tensor product(const at::Tensor& x, const at::Tensor& y) { return x * y; }
TROUPE_FUNCTION_AS("contexts product", product)

TEST_P(operators_in_contexts, leave_results_that_passes_begin_at) {
  auto nodes = start({"a", "b", "c"});
  for (const auto mode : both_modes) {
    const auto& from = nodes[0];
    const auto x = leaf(2), y = leaf(5);
    const context c(from);
    const auto on_b = from.remote<at::Tensor>("b", "aten::mul", x, y);
    const auto on_c = from.remote("c", "aten::mul", on_b, on_b);  // which c fetches
    const auto loss = from.remote<at::Tensor>("c", "aten::sum", on_c.as<at::Tensor>());
    loss.backward(c, pass_options{.mode = mode});  // of (x y)^2
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(2 * 2 * 25)));
    EXPECT_TRUE(torch::equal(c.get_gradients()[y], all(2 * 4 * 5)));
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(operators_in_contexts, use_parameters_where_they_are) {
  auto nodes = start({"a", "b"});
  for (const auto mode : both_modes) {
    const auto& from = nodes[0];
    const auto x = leaf(2);
    const auto w = from.rpc_sync<&own_weight>("b", 7.0);
    const context c(from);
    const auto doubled = from.rpc_async<&twice>("b", x);
    const auto y = from.rpc_sync("b", "aten::mul", doubled, w).to<at::Tensor>();
    c.backward({y.sum()}, {.mode = mode});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(2 * 7)));
    EXPECT_TRUE(torch::equal(from.rpc_sync<&gradient_here>("b", c.id(), w), all(2 * 2)));
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(operators_in_contexts, and_functions_by_name_are_lent_tensors_that_are_followed) {
  auto nodes = start({"a", "b", "c"});
  using function = at::Tensor(at::Tensor, at::Tensor);
  for (const auto mode : both_modes) {
    const auto& from = nodes[0];
    const auto x = leaf(2);
    const auto w = from.rpc_sync<&own_weight>("b", 7.0);
    const context c(from);
    const auto on_b = from.remote<function>("b", "contexts product", x, w);
    const auto on_c = from.remote<function>("c", "contexts product", on_b, on_b);
    c.backward({on_c.to_here().sum()}, {.mode = mode});  // of (x w)^2
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(2 * 2 * 49)));
    EXPECT_TRUE(torch::equal(from.rpc_sync<&gradient_here>("b", c.id(), w), all(2 * 4 * 7)));
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
