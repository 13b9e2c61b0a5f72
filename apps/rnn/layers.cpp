#include "troupe/apps/rnn/layers.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include "troupe/apps/common/initial_weights.hpp"

namespace rnn {

namespace {

constexpr double start = 0.1;  // weights are drawn from plus and minus that, as in the tutorial

void draw(const at::Tensor& weights, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  weights.uniform_(-start, start, common::make_generator(seed));
}

}  // namespace

own_dropout::own_dropout(double probability, std::uint64_t seed)
    : probability_(probability), generator_(common::make_generator(seed)) {}

at::Tensor own_dropout::forward(const at::Tensor& x) {
  if (!is_training() || probability_ == 0) return x;
  const double stays = 1 - probability_;
  return x * at::empty_like(x).bernoulli_(stays, generator_).div_(stays);
}

embedding_table::embedding_table(const model_shape& shape)
    : table_(register_module(
          "table", torch::nn::Embedding(
                       torch::nn::EmbeddingOptions(shape.words, shape.embedding).sparse(true)))),
      dropout_(register_module("dropout",
                               std::make_shared<own_dropout>(shape.dropout, shape.seed + 1))) {
  draw(table_->weight, shape.seed);
}

at::Tensor embedding_table::forward(const at::Tensor& words) {
  const at::AutoGradMode records(is_training());
  return dropout_->forward(table_(words));
}

decoder::decoder(const model_shape& shape)
    : dropout_(
          register_module("dropout", std::make_shared<own_dropout>(shape.dropout, shape.seed + 2))),
      linear_(register_module("linear", torch::nn::Linear(shape.hidden, shape.words))) {
  draw(linear_->weight, shape.seed + 3);
  const at::NoGradGuard no_grad;
  linear_->bias.zero_();
}

at::Tensor decoder::forward(const at::Tensor& outputs) {
  const at::AutoGradMode records(is_training());
  return linear_(dropout_->forward(outputs).flatten(0, -2));
}

}  // namespace rnn
