#pragma once

#include <cstdint>

namespace rnn {

/// How large the model is, and how it is trained.
struct hyperparameters {
  std::uint64_t seed = 1;          ///< of the weights and of dropout
  std::int64_t vocabulary = 4000;  ///< words that have a number of their own, at most
  std::int64_t embedding = 64;     ///< numbers that stand for a word
  std::int64_t hidden = 64;        ///< of each layer of the LSTM
  std::int64_t layers = 1;
  double dropout = 0;
  std::int64_t batch_size = 10;  ///< parts of the text that are read side by side
  std::int64_t length = 20;      ///< words through which gradients go back
  int epochs = 6;
  double learning_rate = 20;
  double clip = 0.25;  ///< the largest norm of all gradients together
};

}  // namespace rnn
