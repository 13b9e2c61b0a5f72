#include "troupe/apps/mesh_matmul/run.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include <chrono>
#include <optional>
#include <troupe/device_mesh.hpp>

#include "troupe/apps/common/progress_bar.hpp"
#include "troupe/apps/mesh_matmul/summa.hpp"

namespace mesh_matmul {

namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point begun) {
  return std::chrono::duration<double>(clock::now() - begun).count();
}

// Of `what`, which all ranks begin together, on the slowest rank.
template <class F>
double slowest(const troupe::process_group& world, const F& what) {
  troupe::barrier(world);
  const auto begun = clock::now();
  what();
  auto taken = at::scalar_tensor(seconds_since(begun), at::kDouble);
  troupe::all_reduce(world, taken, troupe::reduce_op::max);
  return taken.item<double>();
}

}  // namespace

run_record run(const troupe::process_group& world, const options& asked,
               common::status_line* line) {
  run_record out{.asked = asked};
  out.mesh_rows = mesh_rows_of(world.size(), asked.mesh_rows);
  out.mesh_columns = world.size() / out.mesh_rows;
  const auto mesh = troupe::init_device_mesh(world, "cpu", {out.mesh_rows, out.mesh_columns},
                                             {.mesh_dim_names = {"rows", "columns"}});
  const product of(mesh, asked.m, asked.n, asked.k, asked.panel);
  out.operations = of.operations();
  const auto a = block_of(3 * asked.seed, of.rows(), of.a_columns());
  const auto b = block_of(3 * asked.seed + 1, of.b_rows(), of.columns());
  auto c = at::empty({of.rows().size(), of.columns().size()}, at::kFloat);

  std::optional<common::progress_bar> bar;
  if (line) bar.emplace(*line, "multiplied", "products", 2 * (asked.repeats + 1));
  const auto begun = clock::now();
  std::int64_t done = 0;
  const auto timed = [&](std::vector<double>& into, const auto& what) {
    for (std::int64_t i = -1; i < asked.repeats; ++i) {  // the first one warms up
      const auto taken = slowest(world, what);
      if (i >= 0) into.push_back(taken);
      if (bar) bar->update(++done, seconds_since(begun));
    }
  };
  timed(out.local_seconds, [&] { of.multiply_without_others(c); });
  timed(out.seconds, [&] { of.multiply(a, b, c, asked.blocking); });
  out.right = of.is_right(a, b, c, 3 * asked.seed + 2);
  if (line) line->say(summary(out));
  return out;
}

}  // namespace mesh_matmul
