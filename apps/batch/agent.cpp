#include "troupe/apps/batch/agent.hpp"

#include <ATen/ops/zeros.h>

#include "troupe/apps/common/initial_weights.hpp"

namespace batch {

namespace {

constexpr std::int64_t state_size = 4;
constexpr std::int64_t action_count = 2;

void check(const at::Tensor& state) {
  if (!state.defined() || state.scalar_type() != at::kFloat || state.numel() != state_size)
    throw troupe::invalid_argument("select_action needs a CartPole state of four float32 values");
}

}  // namespace

agent::agent(std::int64_t width, std::uint64_t seed, std::size_t observers)
    : policy_({state_size, width, action_count}),
      states_(at::zeros({static_cast<std::int64_t>(observers), state_size})),
      collector_(observers, [this] { return probabilities(states_); }) {
  common::draw_weights(policy_, common::make_generator(seed));
  cartpole::numpy_random seeds(seed);
  for (std::size_t i = 0; i < observers; ++i) random_.emplace_back(seeds.next());
}

troupe::task<std::int64_t> agent::select_action(std::uint32_t observer, const at::Tensor& state) {
  check(state);
  const auto all = co_await collector_.submit(observer, [&] { states_[observer].copy_(state); });
  co_return draw(observer, all.const_data_ptr<float>()[observer * action_count]);
}

std::int64_t agent::select_action_alone(std::uint32_t observer, const at::Tensor& state) {
  check(state);
  const auto own = probabilities(state.view({1, state_size}));
  return draw(observer, own.const_data_ptr<float>()[0]);
}

// Contiguous [n, 2].
at::Tensor agent::probabilities(const at::Tensor& states) {
  const at::NoGradGuard no_grad;
  ++passes_;
  return policy_.forward(states).softmax(1).contiguous();
}

std::int64_t agent::draw(std::uint32_t observer, float left) {
  ++actions_;
  return random_.at(observer).uniform(0, 1) < left ? 0 : 1;
}

}  // namespace batch
