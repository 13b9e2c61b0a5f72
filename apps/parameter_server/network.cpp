#include "troupe/apps/parameter_server/network.hpp"

#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/nll_loss.h>

#include "troupe/apps/common/initial_weights.hpp"

namespace parameter_server {

namespace {

constexpr std::int64_t filters = 16;
constexpr std::int64_t more_filters = 32;
constexpr std::int64_t hidden = 64;

torch::nn::Conv2dOptions three_by_three(std::int64_t from, std::int64_t to) {
  return torch::nn::Conv2dOptions(from, to, 3).padding(1);
}

}  // namespace

network::network(const at::Generator& generator)
    : first_(register_module("first", torch::nn::Conv2d(three_by_three(1, filters)))),
      second_(register_module("second", torch::nn::Conv2d(three_by_three(filters, more_filters)))),
      third_(register_module("third", torch::nn::Linear(more_filters * 4 * 4, hidden))),
      fourth_(register_module("fourth", torch::nn::Linear(hidden, 10))) {
  common::draw_weights(*this, generator);
}

at::Tensor network::forward(const at::Tensor& images) {
  const auto seen = at::max_pool2d(second_(first_(images).relu()).relu(), {2, 2});
  return fourth_(third_(seen.flatten(1)).relu()).log_softmax(1);
}

double network::compute_gradients(const digits& batch) {
  zero_grad();
  const auto loss = at::nll_loss(forward(batch.images), batch.labels);
  loss.backward();
  return loss.item<double>();
}

double accuracy(network& model, const digits& some) {
  const at::NoGradGuard no_grad;
  return model.forward(some.images).argmax(1).eq(some.labels).to(at::kDouble).mean().item<double>();
}

}  // namespace parameter_server
