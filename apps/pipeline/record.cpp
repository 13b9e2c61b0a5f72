#include "apps/pipeline/record.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/common/status_line.hpp"

namespace pipeline {

std::string name_of(const way& how) {
  auto name = how.is_local()           ? std::string("one process")
              : how.micro_batches == 1 ? std::string("1 micro-batch")
                                       : fmt::format("{} micro-batches", how.micro_batches);
  if (how.in_flight > 1) name += fmt::format(", {} in flight", how.in_flight);
  return name;
}

double way_record::speed() const {
  auto sorted = speeds;
  std::sort(sorted.begin(), sorted.end());
  const auto half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double way_record::lowest_speed() const { return *std::min_element(speeds.begin(), speeds.end()); }
double way_record::highest_speed() const { return *std::max_element(speeds.begin(), speeds.end()); }

double run_record::difference() const {
  double largest = 0;
  for (const auto& one : ways) largest = std::max(largest, one.difference);
  return largest;
}

std::string table(const run_record& run) {
  auto text = fmt::format("{:30}{:>10}  {:20}{:>7}{:>14}{:>10}", "", "images/s",
                          "lowest to highest", "times", "loss differs", "accuracy");
  for (const auto& one : run.ways)
    text += fmt::format(
        "\n{:30}{:>10}  {:20}{:>7.2f}{:>14}{:>8.1f} %", name_of(one.how),
        common::with_commas(one.speed()),
        common::with_commas(one.lowest_speed()) + " to " + common::with_commas(one.highest_speed()),
        run.times_faster(one), one.difference == 0 ? "0" : fmt::format("{:.1e}", one.difference),
        100 * one.accuracy);
  return text;
}

std::string verdict(const run_record& run) {
  if (run.is_exact())
    return fmt::format("the losses are those of one process to {:.1e}", run.difference());
  return fmt::format("losses differ from those of one process by up to {:.1e}, more than {:g}",
                     run.difference(), run.tolerance);
}

std::string to_json(const run_record& run) {
  auto ways = nlohmann::ordered_json::array();
  for (const auto& one : run.ways)
    ways.push_back({{"name", name_of(one.how)},
                    {"micro_batches", one.how.micro_batches},
                    {"in_flight", one.how.in_flight},
                    {"images_per_second", one.speed()},
                    {"lowest", one.lowest_speed()},
                    {"highest", one.highest_speed()},
                    {"times_faster", run.times_faster(one)},
                    {"difference", one.difference},
                    {"loss", one.losses.back()},
                    {"accuracy", one.accuracy}});
  const nlohmann::ordered_json document = {
      {"seed", run.seed},
      {"parameters", run.parameters},
      {"batch_size", run.batch_size},
      {"steps", run.ways[0].losses.size()},
      {"repeats", run.ways[0].speeds.size()},
      {"stages", run.stages},
      {"difference", run.difference()},
      {"ways", ways},
  };
  return document.dump(2) + "\n";
}

std::string losses_text(const run_record& run) {
  std::string text;
  for (std::size_t step = 0; step < run.ways[0].losses.size(); ++step) {
    std::vector<float> row;
    for (const auto& one : run.ways) row.push_back(one.losses[step]);
    text += fmt::format("{}\n", fmt::join(row, " "));
  }
  return text;
}

}  // namespace pipeline
