#include "troupe/apps/rnn/model.hpp"

#include <ATen/ops/cross_entropy_loss.h>
#include <torch/utils.h>

#include <cmath>

#include "troupe/apps/common/initial_weights.hpp"
#include "troupe/apps/common/module_tensors.hpp"

namespace rnn {

language_model::language_model(const model_shape& shape)
    : lstm_(torch::nn::LSTMOptions(shape.embedding, shape.hidden)
                .num_layers(shape.layers)
                .dropout(shape.layers > 1 ? shape.dropout : 0)) {
  const at::NoGradGuard no_grad;
  const double bound = 1 / std::sqrt(double(shape.hidden));
  const auto generator = common::make_generator(shape.seed + 4);
  for (auto& parameter : lstm_->parameters()) parameter.uniform_(-bound, bound, generator);
  parameter_count_ =
      common::count_parameters(*lstm_) + shape.words * (shape.embedding + shape.hidden + 1);
  torch::manual_seed(shape.seed + 5);  // the LSTM's dropout draws from the common generator
}

at::Tensor language_model::loss(const batch& words) {
  auto [outputs, state] = lstm_->forward(embed(words.words), state_);
  // The next batch goes on from here, its gradients do not come back.
  state_ = std::tuple(std::get<0>(state).detach(), std::get<1>(state).detach());
  return at::cross_entropy_loss(decode(outputs), words.next);
}

double language_model::test(const batch& words) {
  const at::NoGradGuard no_grad;
  return loss(words).item<double>();
}

void language_model::set_training(bool on) { lstm_->train(on); }

distributed_model::distributed_model(const troupe::node& here, const std::string& table_node,
                                     const std::string& decoder_node, const model_shape& shape,
                                     const hyperparameters& chosen)
    : language_model(shape),
      here_(here),
      table_(here, table_node, shape),
      decoder_(here, decoder_node, shape),
      optimizer_(parameters(), torch::optim::SGDOptions(chosen.learning_rate)),
      clipper_(here, parameters(), chosen.clip) {}

double distributed_model::learn(const batch& words) {
  const troupe::autograd::context context(here_);
  const auto mean = loss(words);
  context.backward({mean});
  clipper_.clip(context);
  optimizer_.step(context);
  return mean.item<double>();
}

void distributed_model::set_training(bool on) {
  language_model::set_training(on);
  table_.train(on);
  decoder_.train(on);
}

std::vector<troupe::rref<at::Tensor>> distributed_model::parameters() const {
  auto all = table_.remote_parameters();
  for (const auto& one : lstm_parameters()) all.push_back(here_.make_rref(one));
  for (const auto& one : decoder_.remote_parameters()) all.push_back(one);
  return all;
}

local_model::local_model(const model_shape& shape, const hyperparameters& chosen)
    : language_model(shape),
      table_(shape),
      decoder_(shape),
      parameters_(all_parameters()),
      clip_(chosen.clip),
      optimizer_(parameters_, torch::optim::SGDOptions(chosen.learning_rate)) {}

std::vector<at::Tensor> local_model::all_parameters() const {
  auto all = table_.parameters();
  for (const auto& one : lstm_parameters()) all.push_back(one);
  for (const auto& one : decoder_.parameters()) all.push_back(one);
  return all;
}

double local_model::learn(const batch& words) {
  optimizer_.zero_grad();
  const auto mean = loss(words);
  mean.backward();
  std::vector<at::Tensor> gradients;
  std::vector<double> norms;
  for (const auto& one : parameters_) {
    gradients.push_back(one.grad());
    norms.push_back(squared_norm(gradients.back()));
  }
  const double factor = clip_factor(norms, clip_);
  if (factor < 1) scale(gradients, factor);
  optimizer_.step();
  return mean.item<double>();
}

void local_model::set_training(bool on) {
  language_model::set_training(on);
  table_.train(on);
  decoder_.train(on);
}

void local_model::set_learning_rate(double rate) {
  for (auto& group : optimizer_.param_groups()) group.options().set_lr(rate);
}

}  // namespace rnn
