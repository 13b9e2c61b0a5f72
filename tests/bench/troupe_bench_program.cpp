// troupe-bench: our side of the benchmark, one row a run, on the ranks that troupe-run starts.
// Rank 0 calls and writes the file, the others serve.

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <troupe/troupe.hpp>

#include "tests/bench/bench_rows.hpp"
#include "tests/bench/device_rows.hpp"
#include "tests/bench/own_ranks.hpp"

int main(int argc, char** argv) {
  CLI::App program(
      "Measures one row of the benchmark: troupe-run -n 2 troupe-bench --row identity "
      "--json FILE");
  std::string row, file;
  std::vector<std::string> names;
  for (const auto& [name, measure] : troupe::bench::bench_rows()) names.push_back(name);
  program.add_option("--row", row, "which")->required()->check(CLI::IsMember(names));
  program.add_option("--json", file, "where rank 0 writes the measurements")->required();
  CLI11_PARSE(program, argc, argv);
  try {
    at::set_num_threads(1);
    const bool on_gpus = troupe::bench::device_rows().contains(row);
    const auto node =
        troupe::init_rpc(on_gpus ? troupe::bench::gpu_options() : troupe::rpc_options());
    if (node.world_size() < 2)
      throw troupe::invalid_argument("the benchmark needs two ranks: troupe-run -n 2 troupe-bench");
    node.set_rpc_timeout(std::chrono::minutes(10));
    if (node.rank() == 0) try {
        troupe::bench::write(file, row, node.world_size(),
                             troupe::bench::bench_rows().at(row)(node));
      } catch (const troupe::bench::not_here& why) {
        troupe::bench::write_reason(file, row, why.what());
      }
    node.shutdown();
    return 0;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "troupe-bench: {}\n", failure.what());
    return 1;
  }
}
