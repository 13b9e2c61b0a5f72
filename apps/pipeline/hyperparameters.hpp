#pragma once

#include <cstdint>

namespace pipeline {

/// How large the network is, and how it is trained.
struct hyperparameters {
  std::uint64_t seed = 1;    ///< of the weights and of the order of the digits
  std::int64_t width = 32;   ///< channels of all layers
  std::int64_t blocks = 12;  ///< of two convolutions each
  std::int64_t batch_size = 256;
  std::int64_t steps = 24;
  double learning_rate = 0.02;
  double momentum = 0.5;
};

}  // namespace pipeline
