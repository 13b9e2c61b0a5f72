#pragma once

#include <cstdint>

namespace parameter_server {

/// How the network is trained.
struct hyperparameters {
  std::uint64_t seed = 1;  ///< of the weights and of the order of the digits
  int epochs = 15;         ///< how often each digit is learnt from
  std::int64_t batch_size = 16;
  double learning_rate = 0.1;
};

}  // namespace parameter_server
