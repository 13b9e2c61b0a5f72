#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace troupe::launcher {

/// When to colour the ranks' prefixes.
enum class colour_mode { automatic, always, never };

/// What ranks are tied to.
enum class pinning { none, cores };

/// What the command line asks for.
struct run_options {
  int ranks = 1;            ///< on this machine
  int nodes = 1;            ///< machines of the job
  int node_rank = 0;        ///< which of them this one is
  std::string rendezvous;   ///< tcp://host:port, or empty: this machine and a free port
  std::string secret_file;  ///< empty: from the environment, or a fresh one
  std::string job_id;       ///< empty: generated
  std::optional<int> threads;
  pinning pin = pinning::none;
  bool keeps_memory = true;  ///< ranks keep freed memory, and large tensors on huge pages
  std::chrono::milliseconds grace{5000};
  bool prefix = true;
  colour_mode colour = colour_mode::automatic;
  std::vector<std::string> command;  ///< the program and its arguments; never empty
};

/// Reads the command line. Returns nothing if it asked for help or was wrong: the answer has been
/// printed then, and `exit_code` is 0 or 2.
std::optional<run_options> parse_options(int argc, const char* const* argv, int& exit_code);

}  // namespace troupe::launcher
