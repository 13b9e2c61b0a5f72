#pragma once

#include <functional>

#include "troupe/apps/parameter_server/hyperparameters.hpp"
#include "troupe/apps/parameter_server/network.hpp"

namespace parameter_server {

/// Trains a new network on `some` in this process, by stochastic gradient descent; `watch` gets the
/// loss of each step.
network train_locally(const digits& some, const hyperparameters& chosen,
                      const std::function<void(double)>& watch);

}  // namespace parameter_server
