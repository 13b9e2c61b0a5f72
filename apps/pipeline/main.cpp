/// pipeline: a deep network whose stages are on other nodes, and work on micro-batches at once.

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <malloc.h>

#include <exception>

#include "troupe/apps/common/recorded_run.hpp"
#include "troupe/apps/common/worker_group.hpp"
#include "troupe/apps/pipeline/comparison.hpp"

namespace {

using namespace pipeline;

/// Trains by `how`; false when losses are not those of one process.
bool run(const options& opts, const std::function<run_record(common::status_line&)>& how) {
  return common::run_recorded(opts, how).is_exact();
}

bool run_ranks(const options& opts) {
  return common::run_job(opts.limit, [&](const troupe::node& node) {
    return run(opts, [&](common::status_line& line) { return compare_on_ranks(node, opts, line); });
  });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int exit_code = 0;
    const auto opts = parse_options(argc, argv, exit_code);
    if (!opts) return exit_code;
    mallopt(M_ARENA_MAX, 1);  // whichever thread runs a stage finds the memory of the one before
    at::set_num_threads(1);   // a stage has one core: what is gained is the pipeline's
    const bool exact =
        opts->local ? run(*opts, [&](common::status_line& line) { return train_here(*opts, line); })
                    : run_ranks(*opts);
    return exact ? 0 : 1;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "pipeline: {}\n", failure.what());
    return 1;
  }
}
