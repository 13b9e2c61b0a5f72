/// batch: calls of many that are answered together, by coroutines that wait for one another.

#include "troupe/apps/batch/options.hpp"
#include "troupe/apps/batch/run.hpp"
#include "troupe/apps/common/program.hpp"

namespace {

using namespace batch;

bool run(const options& opts) {
  return common::run_job(opts.limit, [&](const troupe::node& node) {
    const auto result = common::run_recorded(opts, [&](common::status_line& line) {
      return opts.job == job_kind::server ? compare_servers(node, opts, line)
                                          : compare_agents(node, opts, line);
    });
    return result.complete();
  });
}

}  // namespace

int main(int argc, char** argv) {
  return common::program("batch", argc, argv, &parse_options, &run);
}
