#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "troupe/apps/weight_sync/model.hpp"

namespace weight_sync {

/// What the command line asks for.
struct options {
  network_shape shape;
  std::int64_t steps = 30;      ///< of the trainer, with each method
  std::int64_t batch_size = 8;  ///< of the trainer and of each sampler
  std::int64_t waits = 100;     ///< versions for samplers that only wait
  double learning_rate = 0.05;
  bool readers_wait = false;  ///< pulls wait for a commit that is under way
  bool copies = false;        ///< tensors are copied between processes, not lent
  std::uint64_t seed = 0;
  double limit = 60;  ///< seconds for which a rank may be silent
  std::string json;   ///< where the numbers go; empty: nowhere
  std::string plot;   ///< where the picture goes; empty: nowhere
};

/// Reads the command line. Returns nothing if it asked for help or was wrong: the answer has been
/// printed then, and `exit_code` is 0 or 2.
std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code);

}  // namespace weight_sync
