#include "troupe/apps/mesh_matmul/options.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "troupe/apps/common/command_line.hpp"
#include "troupe/apps/common/number_check.hpp"

namespace mesh_matmul {

namespace {

using common::whole_number;

constexpr const char* footer = R"(Examples:
  build/apps/troupe-run -n 4 build/apps/mesh_matmul
  build/apps/troupe-run -n 6 build/apps/mesh_matmul --m 3000 --n 1000 --k 2000 --mesh-rows 3

The ranks are a mesh of rows and columns, and each has a block of the three matrices. The product is
the SUMMA algorithm's: for each panel the ranks that have it broadcast it along their row or column,
and each rank multiplies what it has got (R. van de Geijn and J. Watts, 1997).

The elements are small integers, so that the result is exact: it is checked by a product with a
vector. The speed is compared with that of the same multiplications without communication.

The exit code is 0, 2 for a wrong command line, and 1 for any other failure, a wrong result among
them.)";

// So that sums of products of elements are exact in float, and those with a vector in double.
constexpr std::int64_t largest_side = 1 << 20;

void add_side(CLI::App& app, const std::string& name, std::int64_t& value,
              const std::string& what) {
  app.add_option(name, value, what)
      ->check(whole_number<std::int64_t>(1, largest_side))
      ->capture_default_str();
}

}  // namespace

std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code) {
  options opts;
  CLI::App app("Multiplies two matrices on a mesh of all ranks of a job.", "mesh_matmul");
  common::describe(app, footer);
  add_side(app, "--m", opts.m, "Rows of the first matrix");
  add_side(app, "--n", opts.n, "Columns of the second matrix");
  add_side(app, "--k", opts.k, "Columns of the first matrix, rows of the second");
  app.add_option("--mesh-rows", opts.mesh_rows,
                 "Rows of the mesh, which divide the ranks; 0: as square as can be")
      ->check(whole_number<std::int64_t>(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--panel", opts.panel, "Columns, and rows, that are broadcast at once")
      ->check(whole_number<std::int64_t>(1, largest_side))
      ->capture_default_str();
  app.add_option("--repeats", opts.repeats, "Products that are timed")
      ->check(whole_number<std::int64_t>(1, 10'000))
      ->capture_default_str();
  app.add_flag("--blocking", opts.blocking,
               "Fetch panels before each multiplication, not during the one before");
  app.add_option("--threads", opts.threads, "Threads of each rank that multiply")
      ->check(whole_number<std::int64_t>(1, 1024))
      ->capture_default_str();
  app.add_option("--seed", opts.seed, "Seed of the elements")
      ->check(whole_number<std::uint64_t>(0, 1ULL << 62))
      ->capture_default_str();
  common::add_job_options(app, opts, "before the run fails");
  if (!common::parse(app, argc, argv, exit_code)) return std::nullopt;
  return opts;
}

std::int64_t mesh_rows_of(std::int64_t ranks, std::int64_t wanted) {
  if (wanted > 0) {
    if (ranks % wanted != 0)
      throw std::invalid_argument(
          fmt::format("--mesh-rows {} does not divide the {} ranks of this job", wanted, ranks));
    return wanted;
  }
  std::int64_t rows = 1;
  for (std::int64_t one = 1; one * one <= ranks; ++one)
    if (ranks % one == 0) rows = one;
  return rows;
}

}  // namespace mesh_matmul
