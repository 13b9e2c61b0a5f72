#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "troupe/messages/codec/type_registration.hpp"

namespace rnn {

/// The sizes of a model, and where its random numbers begin.
struct model_shape {
  std::int64_t words = 0;
  std::int64_t embedding = 0;
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  double dropout = 0;
  std::uint64_t seed = 0;
};
TROUPE_MESSAGE(model_shape, words, embedding, hidden, layers, dropout, seed)

/// In training, sets so many of the inputs to zero and scales the others up. Draws from a generator
/// of its own, so that what it draws does not depend on which node it is on.
class own_dropout : public torch::nn::Module {
public:
  own_dropout(double probability, std::uint64_t seed);

  at::Tensor forward(const at::Tensor& x);

private:
  double probability_;
  at::Generator generator_;
};

/// The vectors that stand for words. Its gradients are sparse: those of the words that were there.
class embedding_table : public torch::nn::Module {
public:
  explicit embedding_table(const model_shape& shape);

  /// int64 [...] to [..., embedding]
  at::Tensor forward(const at::Tensor& words);

private:
  torch::nn::Embedding table_;
  std::shared_ptr<own_dropout> dropout_;
};

/// From what the LSTM makes of the words so far to scores of the next word.
class decoder : public torch::nn::Module {
public:
  explicit decoder(const model_shape& shape);

  /// [..., hidden] to [n, words]
  at::Tensor forward(const at::Tensor& outputs);

private:
  std::shared_ptr<own_dropout> dropout_;
  torch::nn::Linear linear_;
};

}  // namespace rnn
