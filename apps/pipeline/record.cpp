#include "troupe/apps/pipeline/record.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "troupe/apps/common/line_plot.hpp"
#include "troupe/apps/common/status_line.hpp"

namespace pipeline {

namespace {

common::line_plot::points by_step(const std::vector<float>& losses) {
  common::line_plot::points out;
  for (const float loss : losses) out.push_back({double(out.size() + 1), loss});
  return out;
}

double highest_loss(const run_record& run) {
  double highest = 0;
  for (const auto& one : run.ways)
    for (const float loss : one.losses)
      if (std::isfinite(loss)) highest = std::max<double>(highest, loss);
  return highest;
}

}  // namespace

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

std::string to_svg(const run_record& run) {
  common::line_plot picture(
      "Pipeline: loss by step",
      fmt::format("{} stage{}, {} parameters, {} digits in a batch, seed {}", run.stages.size(),
                  run.stages.size() == 1 ? "" : "s", common::with_commas(double(run.parameters)),
                  run.batch_size, run.seed),
      {.name = "Step", .first = 1, .last = double(run.ways[0].losses.size())},
      {.name = "Loss", .first = 0, .last = 1.05 * highest_loss(run)});
  for (auto one = run.ways.begin(); one != run.ways.end(); ++one) {
    // Wider than those that lie on top of it.
    const auto on_top = std::count_if(one + 1, run.ways.end(), [&](const way_record& other) {
      return other.how.in_flight == one->how.in_flight;
    });
    picture.add_line(
        fmt::format("{}: {} images/s", name_of(one->how), common::with_commas(one->speed())),
        common::plot_color(std::size_t(one - run.ways.begin())), by_step(one->losses),
        1.5 + 2.0 * double(on_top));
  }
  return picture.svg();
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
    row.reserve(run.ways.size());
    for (const auto& one : run.ways) row.push_back(one.losses[step]);
    text += fmt::format("{}\n", fmt::join(row, " "));
  }
  return text;
}

}  // namespace pipeline
