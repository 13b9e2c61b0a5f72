#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cartpole {

/// What the command line asks for.
struct options {
  std::uint64_t seed = 1;
  std::size_t observers = 0;  ///< 0: every rank but the agent's, or 1 with `local`
  double gamma = 0.99;
  int average = 0;  ///< observers train, and average after so many episodes; 0: the agent trains
  int log_interval = 10;   ///< rounds between two lines of progress
  int episodes = 0;        ///< stop after this many rounds; 0: never
  double max_seconds = 0;  ///< stop after this many seconds; 0: never
  std::string plot;        ///< where the reward curve goes, as SVG; empty: nowhere
  std::string json;        ///< where the run's numbers go; empty: nowhere
  bool local = false;      ///< agent and observers in this process, by plain calls
};

/// Reads the command line. Returns nothing if it asked for help or was wrong: the answer has been
/// printed then, and `exit_code` is 0 or 2.
std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code);

}  // namespace cartpole
