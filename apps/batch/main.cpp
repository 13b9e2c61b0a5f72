/// batch: calls of many that are answered together, by coroutines that wait for one another.

#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <iostream>

#include "troupe/apps/batch/options.hpp"
#include "troupe/apps/batch/run.hpp"
#include "troupe/apps/common/files.hpp"
#include "troupe/apps/common/worker_group.hpp"

namespace {

using namespace batch;

/// Rank 0's part; false when some of those whom it serves have not come to their end.
bool serve(const troupe::node& node, const options& opts) {
  if (!opts.json.empty()) common::require_writable(opts.json);
  common::status_line line(std::cout, isatty(STDOUT_FILENO) != 0);
  const auto result = opts.job == job_kind::server ? compare_servers(node, opts, line)
                                                   : compare_agents(node, opts, line);
  if (!opts.json.empty()) common::write_file(opts.json, to_json(result));
  line.check();
  return result.complete();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int exit_code = 0;
    const auto opts = parse_options(argc, argv, exit_code);
    if (!opts) return exit_code;
    const bool complete =
        common::run_job(opts->limit, [&](const troupe::node& node) { return serve(node, *opts); });
    return complete ? 0 : 1;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "batch: {}\n", failure.what());
    return 1;
  }
}
