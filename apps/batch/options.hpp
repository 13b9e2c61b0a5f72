#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace batch {

/// What serves calls in batches.
enum class job_kind : std::uint8_t { server, agent };

/// What the command line asks for. The defaults are those of the job.
struct options {
  job_kind job = job_kind::server;
  std::size_t members = 0;  ///< trainers or observers
  int rounds = 0;           ///< calls of each of them
  std::int64_t width = 0;   ///< of the model's hidden layers
  int samples = 1;          ///< of which a trainer computes gradients in a round
  std::uint64_t seed = 1;
  double limit = 60;  ///< seconds for which a rank may be silent
  std::string json;   ///< where the numbers go; empty: nowhere
};

/// Reads the command line. Returns nothing if it asked for help or was wrong: the answer has been
/// printed then, and `exit_code` is 0 or 2.
std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code);

}  // namespace batch
