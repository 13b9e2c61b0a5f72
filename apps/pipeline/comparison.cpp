#include "troupe/apps/pipeline/comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "troupe/apps/common/initial_weights.hpp"
#include "troupe/apps/common/progress_bar.hpp"
#include "troupe/apps/common/worker_group.hpp"
#include "troupe/apps/pipeline/local.hpp"
#include "troupe/apps/pipeline/pipelined.hpp"

namespace pipeline {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::int64_t warm_up = 2;  // steps

double seconds_since(clock::time_point start) {
  return std::chrono::duration<double>(clock::now() - start).count();
}

// The single processes come before those that are compared with them.
std::vector<way> all_ways(const options& opts) {
  std::vector<way> ways{{.micro_batches = 0, .in_flight = 1}};
  if (!opts.local)
    for (const auto n : opts.micro_batches) ways.push_back({.micro_batches = n, .in_flight = 1});
  if (opts.in_flight == 1) return ways;
  ways.push_back({.micro_batches = 0, .in_flight = opts.in_flight});
  if (!opts.local)
    ways.push_back({.micro_batches = opts.micro_batches.back(), .in_flight = opts.in_flight});
  return ways;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double one = std::abs(double(a[i]) - double(b[i]));
    largest = std::isnan(one) ? std::numeric_limits<double>::infinity() : std::max(largest, one);
  }
  return largest;
}

class comparison {
public:
  comparison(const troupe::node* node, const options& opts, common::status_line& line)
      : node_(node),
        opts_(opts),
        line_(line),
        data_(split(parameter_server::read_digits(opts.data))) {
    if (node) places_ = common::homes(*node);
    record_.seed = opts.chosen.seed;
    record_.batch_size = opts.chosen.batch_size;
    record_.tolerance = opts.tolerance;
    for (const auto& how : all_ways(opts)) record_.ways.push_back({.how = how});
    measure_network();
  }

  run_record run() {
    line_.say(
        fmt::format("a network of {} parameters in {} stage{} ({} % of the operations) "
                    "learns {} digits, {} in a batch",
                    common::with_commas(double(record_.parameters)), record_.stages.size(),
                    record_.stages.size() == 1 ? "" : "s", percents(),
                    common::with_commas(double(data_.train.size())), record_.batch_size));
    const auto steps = opts_.chosen.steps;
    common::progress_bar bar(line_, "trained", "batches",
                             steps * opts_.repeats * std::int64_t(record_.ways.size()));
    bar_ = &bar;
    for (int i = 0; i < opts_.repeats; ++i)
      for (auto& one : record_.ways) measure(one);
    line_.say(table(record_));
    if (!opts_.local) line_.say(verdict(record_));
    return record_;
  }

private:
  void measure_network() {
    const network_shape shape{opts_.chosen.width, opts_.chosen.blocks, opts_.chosen.seed};
    const auto costs = layer_costs(shape);
    double total = 0;
    for (const double one : costs) total += one;
    for (const auto& range : cut(costs, std::max<std::size_t>(places_.size(), 1))) {
      double cost = 0;
      for (auto i = range.first; i < range.end; ++i) cost += costs[i];
      record_.stages.push_back(cost / total);
    }
    const segment network(shape, 0, costs.size());
    for (const auto& weights : network.weights()) record_.parameters += weights.numel();
  }

  std::string percents() const {
    std::vector<int> out;
    out.reserve(record_.stages.size());
    for (const double share : record_.stages) out.push_back(int(std::lround(100 * share)));
    return fmt::format("{}", fmt::join(out, ", "));
  }

  std::unique_ptr<learner> make_learner(const way& how) const {
    if (how.is_local()) return std::make_unique<local_learner>(opts_.chosen);
    return std::make_unique<pipelined_learner>(*node_, places_, opts_.chosen, how.micro_batches);
  }

  // The same in each repeat and each way.
  batches deal() const {
    return {data_.train, opts_.chosen.batch_size, common::make_generator(opts_.chosen.seed)};
  }

  const way_record& one_process(std::size_t in_flight) const {
    return *std::find_if(record_.ways.begin(), record_.ways.end(), [&](const way_record& one) {
      return one.how.is_local() && one.how.in_flight == in_flight;
    });
  }

  // A training from the beginning, after a short one that nobody times.
  void measure(way_record& one) {
    auto first = deal();
    learn(*make_learner(one.how), first, warm_up, one.how.in_flight, [](double, std::int64_t) {});

    const auto network = make_learner(one.how);
    auto dealt = deal();
    std::int64_t images = 0;
    const auto start = clock::now();
    const auto losses = learn(*network, dealt, opts_.chosen.steps, one.how.in_flight,
                              [&](double loss, std::int64_t size) {
                                images += size;
                                show(one.how, loss, double(images) / seconds_since(start));
                              });
    one.speeds.push_back(double(images) / seconds_since(start));
    if (one.losses.empty()) {
      one.losses = losses;
      one.accuracy = accuracy(*network, data_.test);
    }
    one.difference =
        std::max(one.difference, largest_difference(losses, one_process(one.how.in_flight).losses));
  }

  void show(const way& how, double loss, double speed) {
    const double seconds = seconds_since(start_);
    bar_->update(++trained_, seconds,
                 bar_->due(seconds) ? fmt::format("{}: {} images/s, loss {:.3f}", name_of(how),
                                                  common::with_commas(speed), loss)
                                    : "");
  }

  const troupe::node* const node_;  // none: all is here
  const options& opts_;
  common::status_line& line_;
  const parameter_server::digit_split data_;
  std::vector<troupe::worker_info> places_;
  run_record record_;
  const clock::time_point start_ = clock::now();
  common::progress_bar* bar_ = nullptr;
  std::int64_t trained_ = 0;
};

}  // namespace

run_record compare_on_ranks(const troupe::node& node, const options& opts,
                            common::status_line& line) {
  return comparison(&node, opts, line).run();
}

run_record train_here(const options& opts, common::status_line& line) {
  return comparison(nullptr, opts, line).run();
}

}  // namespace pipeline
