#include "troupe/apps/weight_sync/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "troupe/apps/common/line_plot.hpp"
#include "troupe/apps/common/status_line.hpp"

namespace weight_sync {

namespace {

std::uint64_t behind(const sampled_batch& one) { return one.newest - one.version; }

template <class F>
void for_each_batch(const method_record& of, F f) {
  for (const auto& sampler : of.samplers)
    for (const auto& batch : sampler.batches) f(batch);
}

}  // namespace

std::size_t method_record::batches() const {
  std::size_t all = 0;
  for (const auto& one : samplers) all += one.batches.size();
  return all;
}

double method_record::mean_staleness() const {
  double sum = 0;
  for_each_batch(*this, [&](const sampled_batch& one) { sum += double(behind(one)); });
  return sum / double(std::max<std::size_t>(batches(), 1));
}

std::uint64_t method_record::worst_staleness() const {
  std::uint64_t worst = 0;
  for_each_batch(*this, [&](const sampled_batch& one) { worst = std::max(worst, behind(one)); });
  return worst;
}

double method_record::publishing_median() const { return quantile(publishing, 0.5); }

bool run_record::is_right() const {
  return std::ranges::all_of(methods, [](const method_record& one) { return one.wrong == 0; });
}

double quantile(std::vector<double> all, double share) {
  std::ranges::sort(all);
  return all[std::min(all.size() - 1, std::size_t(share * double(all.size())))];
}

std::string name_of(method by) { return by == method::pull ? "pull" : "push"; }

std::string table(const run_record& run) {
  std::string text = fmt::format(
      "method  seconds  to publish, ms  batches  batches/s  versions behind  at most  "
      "copied per version, MB  loss\n");
  for (const auto& one : run.methods)
    text += fmt::format(
        "{:<6}  {:>7.2f}  {:>14.2f}  {:>7}  {:>9.1f}  {:>15.2f}  {:>7}  {:>22.1f}  "
        "{:.3f} to {:.3f}\n",
        name_of(one.by), one.seconds, 1e3 * one.publishing_median(), one.batches(),
        double(one.batches()) / one.seconds, one.mean_staleness(), one.worst_staleness(),
        1e-6 * double(one.copied_bytes) / double(run.steps), one.first_loss, one.last_loss);
  text += fmt::format(
      "samplers that wait have {} MB of new weights {:.0f} us after a commit (median; nine of ten "
      "within {:.0f} us), and {:.2f} copies of them are made per version",
      common::with_commas(1e-6 * double(run.wait_bytes)), 1e6 * quantile(run.waits, 0.5),
      1e6 * quantile(run.waits, 0.9),
      double(run.copies_while_waiting) / double(run.waits.size() * std::size_t(run.shape.layers)));
  return text;
}

std::string verdict(const run_record& run) {
  if (run.is_right())
    return "each sampler had the trainer's own weights, each time all of one version";
  std::uint64_t wrong = 0;
  for (const auto& one : run.methods) wrong += one.wrong;
  return fmt::format("{} times a sampler had weights that were not the trainer's", wrong);
}

std::string to_svg(const run_record& run) {
  double last = 0.1;
  std::uint64_t worst = 1;
  for (const auto& one : run.methods) {
    worst = std::max(worst, one.worst_staleness());
    for_each_batch(one, [&](const sampled_batch& batch) { last = std::max(last, batch.seconds); });
  }
  common::line_plot picture(
      "Age of the weights that samplers use",
      fmt::format("{} parameters, one trainer, {} samplers, {} steps",
                  common::with_commas(double(run.shape.parameters())), run.samplers, run.steps),
      {.name = "Seconds", .first = 0, .last = last},
      {.name = "Versions behind the trainer", .first = 0, .last = double(worst) + 1});
  for (std::size_t i = 0; i < run.methods.size(); ++i) {
    const auto& one = run.methods[i];
    bool named = false;
    for (const auto& sampler : one.samplers) {
      common::line_plot::points points;
      for (const auto& batch : sampler.batches)
        points.push_back({batch.seconds, double(behind(batch))});
      picture.add_line(
          named ? ""
                : fmt::format("{}: {:.1f} batches/s, {:.2f} versions behind", name_of(one.by),
                              double(one.batches()) / one.seconds, one.mean_staleness()),
          common::plot_color(i), points, 1.2);
      named = true;
    }
  }
  return picture.svg();
}

std::string to_json(const run_record& run) {
  auto methods = nlohmann::ordered_json::array();
  for (const auto& one : run.methods)
    methods.push_back({{"name", name_of(one.by)},
                       {"seconds", one.seconds},
                       {"publishing_seconds", one.publishing_median()},
                       {"batches", one.batches()},
                       {"mean_versions_behind", one.mean_staleness()},
                       {"most_versions_behind", one.worst_staleness()},
                       {"copies", one.copies},
                       {"copied_bytes", one.copied_bytes},
                       {"first_loss", one.first_loss},
                       {"last_loss", one.last_loss},
                       {"wrong", one.wrong}});
  const nlohmann::ordered_json document = {
      {"parameters", run.shape.parameters()},
      {"layers", run.shape.layers},
      {"steps", run.steps},
      {"samplers", run.samplers},
      {"methods", methods},
      {"wait_us", 1e6 * quantile(run.waits, 0.5)},
      {"wait_us_of_nine_in_ten", 1e6 * quantile(run.waits, 0.9)},
      {"waits", run.waits.size()},
      {"copies_while_waiting", run.copies_while_waiting},
  };
  return document.dump(2) + "\n";
}

}  // namespace weight_sync
