#pragma once

#include <cstddef>
#include <cstdint>

namespace cartpole {

/// What decides, with the environments' seeds, how a run goes. Defaults are the tutorial's.
struct hyperparameters {
  std::uint64_t seed = 1;
  std::size_t observers = 1;
  double gamma = 0.99;
  double learning_rate = 0.01;
};

}  // namespace cartpole
