#pragma once

#include <string>

#include "troupe/actors/node/options.hpp"

namespace troupe {

/// Checks what can be known to be wrong before a node meets others. Throws invalid_argument, which
/// names the option and what it may be. The other founders hear of it from `init_rpc`.
void check_options(const rpc_options& options);

}  // namespace troupe

// The options that must be the same on all nodes of a job. Functions of values, no I/O.
namespace troupe::detail {

struct job_rules {
  backend transport = backend::automatic;
  flow_window window{};
  std::chrono::milliseconds hang_limit{0};
  leader_loss on_leader_loss = leader_loss::end;
};

job_rules rules_of(const rpc_options& options);

/// The first that two nodes, described for people, do not have in common, with both values; empty:
/// they agree.
std::string rules_problem(const std::string& one, const job_rules& ours, const std::string& other,
                          const job_rules& theirs);

}  // namespace troupe::detail
