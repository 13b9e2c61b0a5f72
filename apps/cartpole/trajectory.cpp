#include "troupe/apps/cartpole/trajectory.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>

#include "troupe/apps/common/initial_weights.hpp"
#include "troupe/messages/base/error.hpp"

namespace cartpole {

namespace {

// One call for many masks costs little more than one call for one.
constexpr std::int64_t noise_block = 64;

}  // namespace

trajectory::trajectory(std::uint64_t seed) : generator_(common::make_generator(seed)) {}

std::int64_t trajectory::act(policy& network, const at::Tensor& state) {
  if (!state.defined() || state.scalar_type() != at::kFloat || state.numel() != policy::inputs)
    throw troupe::invalid_argument("select_action needs a CartPole state of four float32 values");
  if (rewards_.size() != actions_.size())
    throw troupe::invalid_argument("select_action was called before the last action's reward");
  if (drawn_ == noise_.size()) draw_noise();

  // Hot path: once a step of the environment. Nothing that is made here outlives it.
  const c10::InferenceMode no_grad;
  const at::Tensor row = state.contiguous().view({1, policy::inputs});
  const at::Tensor& mask = noise_[drawn_];
  const float first = network.forward(row, mask).const_data_ptr<float>()[0];
  const std::int64_t action = uniform_.const_data_ptr<float>()[drawn_] < first ? 0 : 1;
  ++drawn_;

  const float* values = row.const_data_ptr<float>();
  states_.insert(states_.end(), values, values + policy::inputs);
  masks_.push_back(mask);
  actions_.push_back(action);
  return action;
}

void trajectory::reward(double value) {
  if (rewards_.size() == actions_.size())
    throw troupe::invalid_argument("report_reward was called without an action that earned it");
  rewards_.push_back(value);
}

void trajectory::clear() {
  states_.clear();
  masks_.clear();
  actions_.clear();
  rewards_.clear();
}

at::Tensor trajectory::states() const {
  return at::tensor(states_, at::kFloat).view({-1, policy::inputs});
}

at::Tensor trajectory::masks() const { return at::cat(masks_); }

at::Tensor trajectory::actions() const { return at::tensor(actions_, at::kLong).unsqueeze(1); }

void trajectory::draw_noise() {
  noise_ = draw_masks(noise_block, generator_).split(1);
  uniform_ = at::rand({noise_block}, generator_);
  drawn_ = 0;
}

}  // namespace cartpole
