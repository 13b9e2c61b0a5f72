#pragma once

#include <optional>
#include <string>

#include "troupe/apps/parameter_server/hyperparameters.hpp"

namespace parameter_server {

/// What the command line asks for.
struct options {
  hyperparameters chosen;
  std::size_t trainers = 0;  ///< 0: one on every rank but 0
  std::string data;          ///< the file of digits
  double limit = 60;         ///< seconds for which a rank may be silent
  std::string json;          ///< where the run's numbers go; empty: nowhere
  bool local = false;        ///< in this process, without a network
};

/// Reads the command line. Returns nothing if it asked for help or was wrong: the answer has been
/// printed then, and `exit_code` is 0 or 2.
std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code);

}  // namespace parameter_server
