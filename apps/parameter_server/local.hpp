#pragma once

#include <functional>

#include "apps/parameter_server/network.hpp"

namespace hogwild {

/// How the network is trained.
struct hyperparameters {
  std::uint64_t seed = 1;  ///< of the weights and of the order of the digits
  int epochs = 15;         ///< how often each digit is learnt from
  std::int64_t batch_size = 16;
  double learning_rate = 0.1;
};

/// Trains a new network on `some` in this process, by stochastic gradient descent; `watch` hears of
/// each step's loss.
network train_locally(const digits& some, const hyperparameters& chosen,
                      const std::function<void(double)>& watch);

}  // namespace hogwild
