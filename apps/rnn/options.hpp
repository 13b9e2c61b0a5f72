#pragma once

#include <optional>
#include <string>

#include "troupe/apps/rnn/hyperparameters.hpp"

namespace rnn {

/// What the command line asks for.
struct options {
  hyperparameters chosen;
  std::int64_t max_steps = 0;  ///< the training ends after this many; 0: after the epochs
  std::string text;            ///< the file that is learnt from
  double limit = 60;           ///< seconds for which a rank may be silent
  std::string json;            ///< where the run's numbers go; empty: nowhere
  std::string losses;          ///< where the loss of each step goes; empty: nowhere
  std::string plot;            ///< where the picture goes; empty: nowhere
  bool local = false;          ///< in this process, without a network
};

/// Reads the command line. Returns nothing if it asked for help or was wrong: the answer has been
/// printed then, and `exit_code` is 0 or 2.
std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code);

}  // namespace rnn
