/// rnn: a language model whose embedding table and decoder are on other nodes than its LSTM.

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <exception>

#include "troupe/apps/common/recorded_run.hpp"
#include "troupe/apps/common/worker_group.hpp"
#include "troupe/apps/rnn/training.hpp"

namespace {

using namespace rnn;

void run(const options& opts, const std::function<training_record(common::status_line&)>& how) {
  common::run_recorded(opts, how);
}

void run_ranks(const options& opts) {
  common::run_job(opts.limit, [&](const troupe::node& node) {
    run(opts, [&](common::status_line& line) { return train_on_ranks(node, opts, line); });
    return true;
  });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int exit_code = 0;
    const auto opts = parse_options(argc, argv, exit_code);
    if (!opts) return exit_code;
    at::set_num_threads(1);  // the model is too small to share among threads
    if (opts->local)
      run(*opts, [&](common::status_line& line) { return train_here(*opts, line); });
    else
      run_ranks(*opts);
    return 0;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "rnn: {}\n", failure.what());
    return 1;
  }
}
