#include "troupe/apps/pipeline/stage.hpp"

#include <ATen/core/grad_mode.h>

#include <troupe/autograd.hpp>
#include <troupe/optim.hpp>

namespace pipeline {

namespace {

// A graph is of use to the backward pass of a context, and to nobody else.
bool is_recorded() { return troupe::autograd::current_context() != 0; }

}  // namespace

at::Tensor stage_version::forward(const at::Tensor& x) const {
  const at::AutoGradMode records(is_recorded());
  const std::lock_guard turn(*turn_);
  return layers_->forward(x, weights_);
}

std::vector<troupe::rref<at::Tensor>> stage::parameters() const {
  std::vector<troupe::rref<at::Tensor>> out;
  for (const auto& one : layers_->weights()) out.push_back(troupe::this_node().make_rref(one));
  return out;
}

troupe::rref<stage_version> stage::version() const {
  const at::AutoGradMode records(is_recorded());
  std::vector<at::Tensor> now;
  for (const auto& one : layers_->weights()) now.push_back(troupe::snapshot(one));
  return troupe::this_node().make_rref(stage_version(layers_, std::move(now), turn_));
}

std::vector<at::Tensor> stage::weights() const {
  std::vector<at::Tensor> out;
  for (const auto& one : layers_->weights()) out.push_back(troupe::snapshot(one).detach());
  return out;
}

}  // namespace pipeline
