#include "troupe/apps/collectives/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "troupe/actors/groups/backend/operation.hpp"
#include "troupe/apps/common/line_plot.hpp"

namespace collectives {

namespace {

std::string reduction_of(const options& asked) {
  return reduces(asked.op) ? troupe::groups::to_string(asked.reduction) : "none";
}

}  // namespace

double measurement::median() const { return seconds.empty() ? 0 : seconds[seconds.size() / 2]; }

double measurement::algorithm_bandwidth() const {
  const auto time = median();
  return time > 0 ? static_cast<double>(size) / time : 0;
}

double measurement::bus_bandwidth(operation op, int ranks) const {
  return algorithm_bandwidth() * bus_factor(op, ranks);
}

bool run_record::is_right() const {
  return std::ranges::all_of(sizes,
                             [](const measurement& one) { return one.wrong.value_or(0) == 0; });
}

double bus_factor(operation op, int ranks) {
  const double n = ranks;
  switch (op) {
    case operation::all_reduce: return 2 * (n - 1) / n;
    case operation::all_gather:
    case operation::all_to_all:
    case operation::gather:
    case operation::reduce_scatter:
    case operation::scatter: return (n - 1) / n;
    case operation::barrier:
    case operation::broadcast:
    case operation::reduce: return 1;
  }
  return 1;
}

std::string table_head(const run_record& run) {
  return fmt::format(
      "# {}, {} ranks, {} iterations of each size{}; median of the slowest rank's times\n"
      "{:>12} {:>12} {:>8} {:>8} {:>12} {:>9} {:>9} {:>7}\n"
      "{:>12} {:>12} {:>8} {:>8} {:>12} {:>9} {:>9} {:>7}",
      name_of(run.asked.op), run.ranks, run.asked.iterations,
      run.asked.async ? ", by work handles" : "", "size", "count", "type", "redop", "time", "algbw",
      "busbw", "wrong", "(B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)", "");
}

std::string table_line(const run_record& run, const measurement& one) {
  return fmt::format("{:>12} {:>12} {:>8} {:>8} {:>12.2f} {:>9.2f} {:>9.2f} {:>7}", one.size,
                     one.count, c10::toString(run.asked.dtype), reduction_of(run.asked),
                     one.median() * 1e6, one.algorithm_bandwidth() * 1e-9,
                     one.bus_bandwidth(run.asked.op, run.ranks) * 1e-9,
                     one.wrong ? std::to_string(*one.wrong) : "N/A");
}

std::string table_end(const run_record& run) {
  double sum = 0;
  for (const auto& one : run.sizes) sum += one.bus_bandwidth(run.asked.op, run.ranks);
  const auto average = run.sizes.empty() ? 0 : sum / static_cast<double>(run.sizes.size());
  std::string out = fmt::format("# average bus bandwidth {:.2f} GB/s", average * 1e-9);
  if (!run.is_right()) out += "; results are WRONG";
  return out;
}

std::string to_svg(const run_record& run) {
  common::line_plot::points algorithm, bus;
  double most = 0.1;
  for (const auto& one : run.sizes) {
    const auto size = static_cast<double>(one.size);
    algorithm.push_back({size, one.algorithm_bandwidth() * 1e-9});
    bus.push_back({size, one.bus_bandwidth(run.asked.op, run.ranks) * 1e-9});
    most = std::max({most, algorithm.back().y, bus.back().y});
  }
  const auto first = run.sizes.empty() ? 1.0 : static_cast<double>(run.sizes.front().size);
  const auto last = run.sizes.empty() ? 2.0 : static_cast<double>(run.sizes.back().size);
  common::line_plot picture(
      fmt::format("Bandwidth of {}", name_of(run.asked.op)),
      fmt::format("{} ranks, {}, {} iterations of each size{}", run.ranks,
                  c10::toString(run.asked.dtype), run.asked.iterations,
                  run.asked.async ? ", by work handles" : ""),
      {.name = "Bytes", .first = std::max(1.0, first), .last = last, .logarithmic = true},
      {.name = "GB/s", .first = 0, .last = most * 1.1});
  picture.add_line("bus bandwidth", common::plot_color(0), bus);
  picture.add_line("algorithm bandwidth", common::plot_color(1), algorithm);
  return picture.svg();
}

std::string to_json(const run_record& run) {
  auto sizes = nlohmann::ordered_json::array();
  for (const auto& one : run.sizes)
    sizes.push_back(
        {{"size", one.size},
         {"count", one.count},
         {"time_us", one.median() * 1e6},
         {"shortest_us", one.seconds.empty() ? 0 : one.seconds.front() * 1e6},
         {"longest_us", one.seconds.empty() ? 0 : one.seconds.back() * 1e6},
         {"algorithm_gb_per_second", one.algorithm_bandwidth() * 1e-9},
         {"bus_gb_per_second", one.bus_bandwidth(run.asked.op, run.ranks) * 1e-9},
         {"wrong", one.wrong ? nlohmann::ordered_json(*one.wrong) : nlohmann::ordered_json()}});
  const nlohmann::ordered_json document = {{"operation", name_of(run.asked.op)},
                                           {"ranks", run.ranks},
                                           {"dtype", c10::toString(run.asked.dtype)},
                                           {"reduction", reduction_of(run.asked)},
                                           {"iterations", run.asked.iterations},
                                           {"async", run.asked.async},
                                           {"sizes", std::move(sizes)}};
  return document.dump(2) + "\n";
}

}  // namespace collectives
