/// collectives: measures a collective of all ranks of a job, by size, as nccl-tests does.

#include <ATen/Parallel.h>

#include "troupe/apps/collectives/measuring.hpp"
#include "troupe/apps/common/program.hpp"

namespace {

using namespace collectives;

bool run(const options& asked) {
  at::set_num_threads(1);  // a rank has one core
  const auto limit = std::chrono::milliseconds(static_cast<std::int64_t>(asked.limit * 1000));
  const auto group = troupe::init_process_group("troupe", {}, {.timeout = limit});
  const auto record =
      group.rank() == 0
          ? common::run_recorded(
                asked, [&](common::status_line& line) { return measure(group, asked, &line); })
          : measure(group, asked, nullptr);
  troupe::destroy_process_group(group);
  return record.is_right();
}

}  // namespace

int main(int argc, char** argv) {
  return common::program("collectives", argc, argv, &parse_options, &run);
}
