/// pipeline: a deep network whose stages are on other nodes, and work on micro-batches at once.

#include <ATen/Parallel.h>
#include <malloc.h>

#include "troupe/apps/common/program.hpp"
#include "troupe/apps/pipeline/comparison.hpp"

namespace {

using namespace pipeline;

bool is_exact(const run_record& record) { return record.is_exact(); }

bool run(const options& opts) {
  mallopt(M_ARENA_MAX, 1);  // whichever thread runs a stage finds the memory of the one before
  at::set_num_threads(1);   // a stage has one core: what is gained is the pipeline's
  return common::run_job_or_here(opts, &compare_on_ranks, &train_here, &is_exact);
}

}  // namespace

int main(int argc, char** argv) {
  return common::program("pipeline", argc, argv, &parse_options, &run);
}
