// Backward passes over nodes.

#include <ATen/ops/addmm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>

#include <troupe/autograd.hpp>

#include "tests/bench/bench_rows.hpp"
#include "tests/bench/callees.hpp"

namespace troupe::bench {

namespace {

at::Tensor small_weight(std::int64_t rows, std::int64_t columns, double value) {
  return at::full({rows, columns}, value).requires_grad_(true);
}

// A small linear layer of each process.
at::Tensor linear_here(const at::Tensor& x) {
  static const auto weight = small_weight(16, 16, 0.01);
  static const auto bias = small_weight(1, 16, 0.01);
  return at::addmm(bias, x, weight);
}

std::size_t gradients_there(std::uint64_t context) {
  return autograd::get_gradients(this_node(), context).size();
}

void expect(bool what) {
  if (!what) throw internal_error("a backward pass has lost gradients");
}

std::vector<measurement> autograd_context(const node& here) {
  const auto x = at::full({4, 16}, 1.0);
  const auto w = small_weight(16, 16, 0.01);
  return {times_of(call_times([&] {
    const autograd::context context(here);
    const auto y = here.rpc_sync<&linear_here>(peer, at::matmul(x, w));
    context.backward({y.sum()});
    expect(context.get_gradients().size() == 1);
    expect(here.rpc_sync<&gradients_there>(peer, context.id()) == 2);
  }))};
}

// Forward through all ranks, one after the other, and back.
std::vector<measurement> autograd_chain(const node& here) {
  const auto x = small_weight(4, 16, 1.0);
  const auto ranks = here.world_size();
  return {times_of(call_times([&] {
    const autograd::context context(here);
    auto y = x;
    for (std::uint32_t i = 1; i <= ranks; ++i) y = here.rpc_sync<&linear_here>(i % ranks, y);
    context.backward({y.sum()});
    expect(context.get_gradients().contains(x));
  }))};
}

// A model of about 10 ms, with a context around it and without, in turns.
std::vector<measurement> autograd_overhead(const node& here) {
  const auto x = at::full({256, 512}, 0.01);
  std::vector<at::Tensor> weights;
  for (int i = 0; i < 4; ++i) weights.push_back(small_weight(512, 512, 0.001));
  const auto forward = [&] {
    auto y = x;
    for (int round = 0; round < 2; ++round)
      for (const auto& w : weights) y = at::relu(at::matmul(y, w));
    return y.sum();
  };
  const auto plain_pass = [&] {
    forward().backward();
    for (const auto& w : weights) w.mutable_grad() = at::Tensor();
  };
  const auto context_pass = [&] {
    const autograd::context context(here);
    context.backward({forward()});
    expect(context.get_gradients().size() == weights.size());
  };
  const effort how{.seconds = 0, .least = 150, .warm_up = 0};
  return {{"share", times_as_long(context_pass, plain_pass, how) - 1}};
}

// Growth of both processes over 1,000 contexts with a call and a pass each, after as many.
std::vector<measurement> context_churn(const node& here) {
  const auto x = small_weight(4, 16, 1.0);
  const auto thousand = [&] {
    for (int i = 0; i < 1000; ++i) {
      const autograd::context context(here);
      context.backward({here.rpc_sync<&linear_here>(peer, x).sum()});
    }
    while (here.rpc_sync<&contexts_here>(peer) != 0) {
    }
  };
  for (int i = 0; i < 5; ++i) thousand();
  const auto there = [&] { return here.rpc_sync<&resident_bytes>(peer); };
  const auto mine = resident_bytes(), theirs = there();
  thousand();
  // What one gives back is not set off against what the other one takes.
  const auto growth = std::max(resident_bytes(), mine) - mine + std::max(there(), theirs) - theirs;
  return {{"bytes", static_cast<double>(growth)}};
}

}  // namespace

const std::map<std::string, row>& autograd_rows() {
  static const std::map<std::string, row> all = {
      {"autograd_context", autograd_context},
      {"autograd_chain", autograd_chain},
      {"autograd_overhead", autograd_overhead},
      {"context_churn", context_churn},
  };
  return all;
}

}  // namespace troupe::bench
