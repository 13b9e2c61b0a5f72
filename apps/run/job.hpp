#pragma once

#include <string>
#include <vector>

#include "troupe/apps/run/options.hpp"

namespace troupe::launcher {

/// What all ranks of the job have in common.
struct job {
  std::string host;  ///< where the ranks meet
  int port = 0;
  std::string id;
  std::string secret;  ///< 64 hex digits; goes into environments only
  int threads = 1;     ///< of each rank's tensor operations
};

/// Decides where the ranks meet, the job's name and its secret. Throws invalid_argument when the
/// rendezvous cannot be read or a job of several machines has no secret.
job make_job(const run_options& options);

/// The environment of local rank `local_rank`: ours, with what a rank needs to know. It has
/// `threads` threads; counts that the user has set stay unless --threads was given.
std::vector<std::string> rank_environment(const run_options& options, const job& job,
                                          int local_rank, int threads);

/// The cores that this process may use.
int usable_cores();

}  // namespace troupe::launcher
