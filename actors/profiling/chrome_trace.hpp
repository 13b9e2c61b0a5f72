#pragma once

#include <chrono>
#include <iosfwd>
#include <string>
#include <vector>

#include "troupe/actors/node/node.hpp"
#include "troupe/actors/profiling/profile_event.hpp"

namespace troupe {

/// What one node has recorded.
struct node_profile {
  std::vector<profile_event> events;
  /// How far the clock of that node is ahead of the others': see `clock_ahead`.
  std::chrono::nanoseconds clock_ahead{0};
};

/// By how much the system clock of `there` is ahead of this one's. Of several calls the quickest
/// one counts, whose two ways are taken for equally long: it is wrong by half of its duration at
/// most, some microseconds between processes of a host (Cristian, "Probabilistic clock
/// synchronization", 1989). Blocks for `samples` calls. Throws like rpc_sync, and invalid_argument
/// for less than one sample.
std::chrono::nanoseconds clock_ahead(const node& here, const destination& there, int samples = 16);

/// Writes profiles of any nodes as one trace in Chrome's format, which chrome://tracing and
/// https://ui.perfetto.dev show: each node is a process of its name, each of its threads a line;
/// calls are lines of their own, since they overlap. Each event says its node ("node_id"), and the
/// shapes ("Input Dims") and bytes that it has. Times are microseconds since the first event. What
/// `workers` does not name is "rank 3". Throws invalid_argument for a file that cannot be written.
void write_chrome_trace(std::ostream& out, const std::vector<node_profile>& profiles,
                        const worker_list& workers);
void write_chrome_trace(const std::string& path, const std::vector<node_profile>& profiles,
                        const worker_list& workers);

}  // namespace troupe
