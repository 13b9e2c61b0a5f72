// troupe-bench: our side of the benchmark, one row a run, on the ranks that troupe-run starts.
// Rank 0 calls and writes the file, the others serve; of collectives, which all ranks call, several
// rows a run.

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <troupe/troupe.hpp>

#include "tests/bench/bench_rows.hpp"
#include "tests/bench/collective_rows.hpp"
#include "tests/bench/device_rows.hpp"
#include "tests/bench/own_ranks.hpp"

namespace {

using namespace troupe::bench;

void measure(const troupe::node& here, const std::string& row, const std::string& file) {
  if (here.rank() == 0) try {
      write(file, row, here.world_size(), bench_rows().at(row)(here));
    } catch (const not_here& why) {
      write_reason(file, row, why.what());
    }
}

void measure_together(const troupe::node& here, const std::vector<std::string>& rows,
                      const std::string& file) {
  std::map<std::string, std::vector<measurement>> measured;
  for (const auto& row : rows) measured[row] = collective_rows().at(row)(here);
  if (here.rank() == 0) write_rows(file, here.world_size(), measured);
}

bool is_collective(const std::string& row) { return collective_rows().contains(row); }

}  // namespace

int main(int argc, char** argv) {
  CLI::App program(
      "Measures one row of the benchmark: troupe-run -n 2 troupe-bench --row identity "
      "--json FILE");
  std::string file;
  std::vector<std::string> rows, names;
  for (const auto& [name, measure] : bench_rows()) names.push_back(name);
  for (const auto& [name, measure] : collective_rows()) names.push_back(name);
  program.add_option("--row", rows, "which; of collectives several, separated by commas")
      ->delimiter(',')
      ->required()
      ->check(CLI::IsMember(names));
  program.add_option("--json", file, "where rank 0 writes the measurements")->required();
  CLI11_PARSE(program, argc, argv);
  try {
    at::set_num_threads(1);
    const bool together = std::ranges::all_of(rows, is_collective);
    if (!together && rows.size() != 1)
      throw troupe::invalid_argument("only rows of collectives can be measured in one run");
    const bool on_gpus = device_rows().contains(rows[0]);
    const auto node = troupe::init_rpc(on_gpus ? gpu_options() : troupe::rpc_options());
    if (node.world_size() < 2)
      throw troupe::invalid_argument("the benchmark needs two ranks: troupe-run -n 2 troupe-bench");
    node.set_rpc_timeout(std::chrono::minutes(10));
    if (together)
      measure_together(node, rows, file);
    else
      measure(node, rows[0], file);
    node.shutdown();
    return 0;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "troupe-bench: {}\n", failure.what());
    return 1;
  }
}
