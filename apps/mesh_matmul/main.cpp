/// mesh_matmul: multiplies two matrices on a mesh of ranks, by SUMMA, and checks the result.

#include <ATen/Parallel.h>

#include "troupe/apps/common/program.hpp"
#include "troupe/apps/mesh_matmul/run.hpp"

namespace {

using namespace mesh_matmul;

bool run_job(const options& asked) {
  at::set_num_threads(asked.threads);
  const auto limit = std::chrono::milliseconds(static_cast<std::int64_t>(asked.limit * 1000));
  const auto world = troupe::init_process_group("troupe", {}, {.timeout = limit});
  const auto record =
      world.rank() == 0
          ? common::run_recorded(
                asked, [&](common::status_line& line) { return run(world, asked, &line); })
          : run(world, asked, nullptr);
  troupe::destroy_process_group(world);
  return record.right;
}

}  // namespace

int main(int argc, char** argv) {
  return common::program("mesh_matmul", argc, argv, &parse_options, &run_job);
}
