/// parameter_server: trainers learn handwritten digits with the parameters of one server, without
/// locks.

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <iostream>

#include "troupe/apps/common/files.hpp"
#include "troupe/apps/common/worker_group.hpp"
#include "troupe/apps/parameter_server/job.hpp"

namespace {

using namespace hogwild;

/// Trains by `how`; false when some trainers have not come to their end.
bool run(const options& opts, const std::function<training_record(common::status_line&)>& how) {
  if (!opts.json.empty()) common::require_writable(opts.json);
  common::status_line line(std::cout, isatty(STDOUT_FILENO) != 0);
  const auto record = how(line);
  if (!opts.json.empty()) common::write_file(opts.json, to_json(record));
  line.check();
  return record.failures.empty();
}

bool run_ranks(const options& opts) {
  return common::run_job(opts.limit, [&](const troupe::node& node) {
    return run(opts, [&](common::status_line& line) { return train_on_ranks(node, opts, line); });
  });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int exit_code = 0;
    const auto opts = parse_options(argc, argv, exit_code);
    if (!opts) return exit_code;
    at::set_num_threads(1);  // the network is too small to share among threads
    const bool complete =
        opts->local ? run(*opts, [&](common::status_line& line) { return train_here(*opts, line); })
                    : run_ranks(*opts);
    return complete ? 0 : 1;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "parameter_server: {}\n", failure.what());
    return 1;
  }
}
