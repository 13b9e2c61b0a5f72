#pragma once

#include <torch/nn/modules/rnn.h>
#include <torch/optim/sgd.h>

#include <troupe/optim.hpp>
#include <troupe/remote_module.hpp>

#include "troupe/apps/rnn/batches.hpp"
#include "troupe/apps/rnn/clipping.hpp"
#include "troupe/apps/rnn/hyperparameters.hpp"
#include "troupe/apps/rnn/layers.hpp"

namespace rnn {

/// Predicts the next word of each stream from those before it. Has the LSTM; derived classes have
/// the other layers, and step the parameters.
class language_model {
public:
  virtual ~language_model() = default;

  /// A step of stochastic gradient descent with clipped gradients. Returns the mean loss before it.
  virtual double learn(const batch& words) = 0;

  /// The mean loss.
  double test(const batch& words);

  /// Resets the state of the LSTM: the next batch is the first of a text.
  void begin_text() { state_.reset(); }

  virtual void set_training(bool on);
  /// The number of elements of the parameters of all layers.
  std::int64_t parameter_count() const { return parameter_count_; }
  virtual void set_learning_rate(double rate) = 0;

protected:
  explicit language_model(const model_shape& shape);

  at::Tensor loss(const batch& words);
  std::vector<at::Tensor> lstm_parameters() const { return lstm_->parameters(); }

private:
  virtual at::Tensor embed(const at::Tensor& words) = 0;
  virtual at::Tensor decode(const at::Tensor& outputs) = 0;

  torch::nn::LSTM lstm_;
  std::optional<std::tuple<at::Tensor, at::Tensor>> state_;
  std::int64_t parameter_count_;
};

/// With the embedding table on one node and the decoder on another, or the same.
class distributed_model final : public language_model {
public:
  distributed_model(const troupe::node& here, const std::string& table_node,
                    const std::string& decoder_node, const model_shape& shape,
                    const hyperparameters& chosen);

  double learn(const batch& words) override;
  void set_training(bool on) override;
  void set_learning_rate(double rate) override { optimizer_.set_lr(rate); }

private:
  at::Tensor embed(const at::Tensor& words) override { return table_.forward(words); }
  at::Tensor decode(const at::Tensor& outputs) override { return decoder_.forward(outputs); }
  std::vector<troupe::rref<at::Tensor>> parameters() const;

  troupe::node here_;
  troupe::remote_module<embedding_table> table_;
  troupe::remote_module<decoder> decoder_;
  troupe::distributed_optimizer<torch::optim::SGD> optimizer_;
  clipper clipper_;
};

/// All of it in this process.
class local_model final : public language_model {
public:
  local_model(const model_shape& shape, const hyperparameters& chosen);

  double learn(const batch& words) override;
  void set_training(bool on) override;
  void set_learning_rate(double rate) override;

private:
  at::Tensor embed(const at::Tensor& words) override { return table_.forward(words); }
  at::Tensor decode(const at::Tensor& outputs) override { return decoder_.forward(outputs); }

  std::vector<at::Tensor> all_parameters() const;

  embedding_table table_;
  decoder decoder_;
  const std::vector<at::Tensor> parameters_;
  const double clip_;
  torch::optim::SGD optimizer_;
};

}  // namespace rnn
