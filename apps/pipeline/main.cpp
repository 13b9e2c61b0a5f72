/// pipeline: a deep network whose stages are on other nodes, and work on micro-batches at once.

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <malloc.h>
#include <stdlib.h>

#include <exception>

#include "apps/common/recorded_run.hpp"
#include "apps/common/team.hpp"
#include "apps/pipeline/comparison.hpp"

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

// What a layer makes of a batch lives for a moment. To have its pages from the system and to clear
// them each time, on whichever thread it is, would take about as long as the layer's work.
void keep_memory() {
  setenv("THP_MEM_ALLOC_ENABLE", "0", 1);  // against troupe-run, before libtorch looks
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int exit_code = 0;
    const auto opts = parse_options(argc, argv, exit_code);
    if (!opts) return exit_code;
    keep_memory();
    at::set_num_threads(1);  // a stage has one core: what is gained is the pipeline's
    const bool exact =
        opts->local ? run(*opts, [&](common::status_line& line) { return train_here(*opts, line); })
                    : run_ranks(*opts);
    return exact ? 0 : 1;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "pipeline: {}\n", failure.what());
    return 1;
  }
}
