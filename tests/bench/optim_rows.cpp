// Steps of parameters that live on several nodes.

#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sum.h>

#include <troupe/autograd.hpp>
#include <troupe/optim.hpp>

#include "tests/bench/bench_rows.hpp"

namespace troupe::bench {

namespace {

rref<at::Tensor> weight_here() {
  return this_node().make_rref(at::full({16, 16}, 0.01).requires_grad_(true));
}

at::Tensor product_here(const at::Tensor& x, const rref<at::Tensor>& weight) {
  return at::matmul(x, weight.local_value());
}

double sum_here(const rref<at::Tensor>& weight) {
  return weight.local_value().sum().item<double>();
}

// A parameter on each of two nodes. The same gradients every time: only the step is measured.
std::vector<measurement> optimizer_step(const node& here) {
  const auto mine = here.rpc_sync<&weight_here>(here.rank());
  const auto other = here.rpc_sync<&weight_here>(peer);
  const distributed_optimizer<torch::optim::SGD> optimizer({mine, other},
                                                           torch::optim::SGDOptions(1e-6));
  const autograd::context context(here);
  const auto y = product_here(at::full({4, 16}, 1.0), mine);
  context.backward({here.rpc_sync<&product_here>(peer, y, other).sum()});
  const auto times = call_times([&] { optimizer.step(context); });
  const auto before = 16 * 16 * 0.01;
  if (sum_here(mine) >= before || here.rpc_sync<&sum_here>(peer, other) >= before)
    throw internal_error("an optimizer has not stepped");
  return {times_of(times)};
}

}  // namespace

const std::map<std::string, row>& optim_rows() {
  static const std::map<std::string, row> all = {{"optimizer_step", optimizer_step}};
  return all;
}

}  // namespace troupe::bench
