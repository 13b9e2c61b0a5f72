/// parameter_server: trainers learn handwritten digits with the parameters of one server, without
/// locks.

#include <ATen/Parallel.h>

#include "troupe/apps/common/program.hpp"
#include "troupe/apps/parameter_server/job.hpp"

namespace {

using namespace parameter_server;

bool is_complete(const training_record& record) { return record.failures.empty(); }

bool run(const options& opts) {
  at::set_num_threads(1);  // the network is too small to share among threads
  return common::run_job_or_here(opts, &train_on_ranks, &train_here, &is_complete);
}

}  // namespace

int main(int argc, char** argv) {
  return common::program("parameter_server", argc, argv, &parse_options, &run);
}
