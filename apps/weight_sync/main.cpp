/// weight_sync: samplers on other nodes follow the weights of a trainer, without copies on one
/// host.

#include <ATen/Parallel.h>

#include "troupe/apps/common/program.hpp"
#include "troupe/apps/weight_sync/trainer.hpp"

namespace {

using namespace weight_sync;

bool run(const options& opts) {
  at::set_num_threads(1);  // a rank has one core
  troupe::rpc_options rpc;
  rpc.lend_tensors = !opts.copies;
  return common::run_job(
      opts.limit,
      [&](const troupe::node& node) {
        return common::run_recorded(
                   opts, [&](common::status_line& line) { return train(node, opts, line); })
            .is_right();
      },
      rpc);
}

}  // namespace

int main(int argc, char** argv) {
  return common::program("weight_sync", argc, argv, &parse_options, &run);
}
