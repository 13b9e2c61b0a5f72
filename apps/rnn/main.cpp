/// rnn: a language model whose embedding table and decoder are on other nodes than its LSTM.

#include <ATen/Parallel.h>

#include "troupe/apps/common/program.hpp"
#include "troupe/apps/rnn/training.hpp"

namespace {

using namespace rnn;

bool has_ended(const training_record&) { return true; }

bool run(const options& opts) {
  at::set_num_threads(1);  // the model is too small to share among threads
  return common::run_job_or_here(opts, &train_on_ranks, &train_here, &has_ended);
}

}  // namespace

int main(int argc, char** argv) { return common::program("rnn", argc, argv, &parse_options, &run); }
