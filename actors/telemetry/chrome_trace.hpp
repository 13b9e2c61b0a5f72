#pragma once

#include <chrono>
#include <iosfwd>
#include <string>
#include <vector>

#include "troupe/actors/node/node.hpp"
#include "troupe/actors/profiling/profile_event.hpp"

namespace troupe {

/// The profile of one node.
struct node_profile {
  std::vector<profile_event> events;
  /// How far the clock of that node is ahead of the others': see `clock_ahead`.
  std::chrono::nanoseconds clock_ahead{0};
};

/// By how much the system clock of `there` is ahead of this one's. The quickest of several calls
/// counts, and its two ways are taken to be equally long: the error is at most half of its
/// duration, some microseconds between processes of one host (Cristian, "Probabilistic clock
/// synchronization", 1989). Blocks for `samples` calls. Throws like rpc_sync, and invalid_argument
/// if `samples` is less than 1.
std::chrono::nanoseconds clock_ahead(const node& here, const destination& there, int samples = 16);

/// Writes the profiles of several nodes as one trace in Chrome's format, which chrome://tracing and
/// https://ui.perfetto.dev show: each node is a process with its name, each of its threads a line;
/// calls are lines of their own, since they overlap. Each event has its node ("node_id"), and the
/// shapes ("Input Dims") and bytes that were recorded. Times are microseconds since the first
/// event. A node that is not among `workers` is called "rank 3". Throws invalid_argument if the
/// file cannot be written.
void write_chrome_trace(std::ostream& out, const std::vector<node_profile>& profiles,
                        const worker_list& workers);
void write_chrome_trace(const std::string& path, const std::vector<node_profile>& profiles,
                        const worker_list& workers);

}  // namespace troupe
