#include "troupe/apps/mesh_matmul/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mesh_matmul {

namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double gflops(const run_record& run, double seconds) {
  return seconds > 0 ? run.operations / seconds * 1e-9 : 0;
}

}  // namespace

double run_record::seconds_of_product() const { return median(seconds); }
double run_record::seconds_of_local() const { return median(local_seconds); }

double run_record::efficiency() const {
  const auto time = seconds_of_product();
  return time > 0 ? seconds_of_local() / time : 0;
}

std::string summary(const run_record& run) {
  return fmt::format(
      "({} x {}) times ({} x {}) on a mesh of {} x {} ranks, panels of {}\n"
      "product          {:>10.2f} ms  {:>8.1f} GFLOP/s\n"
      "multiplications  {:>10.2f} ms  {:>8.1f} GFLOP/s, on all ranks, without communication\n"
      "efficiency       {:>10.0f} %\n"
      "the result is {}",
      run.asked.m, run.asked.k, run.asked.k, run.asked.n, run.mesh_rows, run.mesh_columns,
      run.asked.panel, run.seconds_of_product() * 1e3, gflops(run, run.seconds_of_product()),
      run.seconds_of_local() * 1e3, gflops(run, run.seconds_of_local()), run.efficiency() * 100,
      run.right ? "right" : "WRONG");
}

std::string to_json(const run_record& run) {
  const nlohmann::ordered_json document = {{"m", run.asked.m},
                                           {"n", run.asked.n},
                                           {"k", run.asked.k},
                                           {"mesh", {run.mesh_rows, run.mesh_columns}},
                                           {"panel", run.asked.panel},
                                           {"blocking", run.asked.blocking},
                                           {"seconds", run.seconds},
                                           {"local_seconds", run.local_seconds},
                                           {"gflops", gflops(run, run.seconds_of_product())},
                                           {"local_gflops", gflops(run, run.seconds_of_local())},
                                           {"efficiency", run.efficiency()},
                                           {"right", run.right}};
  return document.dump(2) + "\n";
}

}  // namespace mesh_matmul
