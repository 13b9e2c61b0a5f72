#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

#include <troupe/autograd.hpp>
#include <troupe/optim.hpp>

#include "tests/actors/node/job.hpp"

namespace troupe::test {

using parameters = std::vector<rref<at::Tensor>>;

inline at::Tensor all(double value, std::int64_t n = 3) {
  return torch::full({n}, value, torch::kDouble);
}

// ---- What is called on a parameter's owner.

inline rref<at::Tensor> own(const at::Tensor& value) {
  return this_node().make_rref(value.clone().requires_grad_());
}
inline at::Tensor term(const at::Tensor& x, const rref<at::Tensor>& w) {
  return (x * w.local_value().sin()).sum();
}
inline at::Tensor times(const at::Tensor& x, const rref<at::Tensor>& w) {
  return (x * w.local_value()).sum();
}
inline at::Tensor value_of(const rref<at::Tensor>& w) { return w.local_value().detach().clone(); }
inline bool has_grad(const rref<at::Tensor>& w) { return w.local_value().grad().defined(); }
inline std::int64_t version_of(const rref<at::Tensor>& w) { return w.local_value()._version(); }

/// One parameter on each of these nodes.
inline parameters spread(const node& here, const std::vector<std::string>& on,
                         const std::vector<at::Tensor>& values) {
  parameters out;
  for (std::size_t i = 0; i < values.size(); ++i)
    out.push_back(here.rpc_sync<&own>(on[i % on.size()], values[i]));
  return out;
}

/// The same forward pass over any parameters: those of nodes, and the local ones.
inline at::Tensor loss_of(const node& here, const parameters& all,
                          const std::vector<at::Tensor>& xs) {
  at::Tensor sum;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!xs[i].defined()) continue;
    const auto one = here.rpc_sync<&term>(all[i].owner_name(), xs[i], all[i]);
    sum = sum.defined() ? sum + one : one;
  }
  return sum;
}
inline at::Tensor loss_of(const std::vector<at::Tensor>& all, const std::vector<at::Tensor>& xs) {
  at::Tensor sum;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!xs[i].defined()) continue;
    const auto one = (xs[i] * all[i].sin()).sum();
    sum = sum.defined() ? sum + one : one;
  }
  return sum;
}

inline std::vector<at::Tensor> random_tensors(std::uint64_t seed, std::size_t count) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  std::vector<at::Tensor> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(torch::randn({static_cast<std::int64_t>(i) + 2, 3}, generator, torch::kDouble));
  return out;
}
inline std::vector<at::Tensor> as_leaves(const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> out;
  for (const auto& one : values) out.push_back(one.clone().requires_grad_());
  return out;
}

inline void expect_equal(const node& here, const parameters& all,
                         const std::vector<at::Tensor>& wanted, const std::string& what = "") {
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_TRUE(torch::equal(here.rpc_sync<&value_of>(all[i].owner_name(), all[i]), wanted[i]))
        << what << " parameter " << i;
}

/// The same step, here and there.
template <class Distributed, class Local>
void step_both(const node& here, const Distributed& optimizer, const parameters& all, Local& local,
               const std::vector<at::Tensor>& leaves, const std::vector<at::Tensor>& xs) {
  local.zero_grad();
  loss_of(leaves, xs).backward();
  local.step();
  const autograd::context c(here);
  c.backward({loss_of(here, all, xs)});
  optimizer.step(c);
}

}  // namespace troupe::test
