#pragma once

#include <optional>
#include <string>
#include <vector>

#include "troupe/apps/pipeline/hyperparameters.hpp"

namespace pipeline {

/// What the command line asks for.
struct options {
  hyperparameters chosen;
  std::vector<std::int64_t> micro_batches{1, 2, 4, 8};
  std::size_t in_flight = 2;  ///< batches under way at a time in the last way; 1: without that way
  int repeats = 3;
  double tolerance = 1e-5;  ///< for losses
  std::string data;         ///< the file of digits
  double limit = 60;        ///< seconds for which a rank may be silent
  std::string json;         ///< where the numbers go; empty: nowhere
  std::string losses;       ///< where the losses go; empty: nowhere
  std::string plot;         ///< where the picture goes; empty: nowhere
  bool local = false;       ///< in this process, without a network
};

/// Reads the command line. Returns nothing if it asked for help or was wrong: the answer has been
/// printed then, and `exit_code` is 0 or 2.
std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code);

}  // namespace pipeline
