#include "troupe/apps/rnn/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "troupe/apps/common/line_plot.hpp"
#include "troupe/apps/common/status_line.hpp"

namespace rnn {

namespace {

using points = common::line_plot::points;

// In so many points: a step's own loss says little.
points smoothed(const std::vector<float>& losses) {
  const std::size_t together = (losses.size() + 299) / 300;
  points out;
  for (std::size_t first = 0; first < losses.size();) {
    const auto end = std::min(first + together, losses.size());
    double sum = 0;
    for (auto i = first; i < end; ++i) sum += losses[i];
    out.push_back({double(end), std::exp(sum / double(end - first))});
    first = end;
  }
  return out;
}

points tests(const std::vector<epoch_record>& epochs) {
  points out;
  for (const auto& one : epochs) out.push_back({double(one.steps), one.perplexity});
  return out;
}

// Of what is finite, and of the level. What is far worse than a guess among all words, as where a
// training has gone wrong, may lie beyond.
std::pair<double, double> range(const std::vector<points>& curves, double level, double words) {
  double lowest = level, highest = level;
  for (const auto& curve : curves)
    for (const auto& p : curve)
      if (std::isfinite(p.y)) {
        lowest = std::min(lowest, p.y);
        highest = std::max(highest, p.y);
      }
  return {0.9 * lowest, 1.1 * std::min(highest, 100 * std::max(words, level))};
}

}  // namespace

double training_record::perplexity() const {
  double best = std::numeric_limits<double>::infinity();
  for (const auto& epoch : epochs) best = std::min(best, epoch.perplexity);
  return best;
}

std::string epoch_text(const training_record& record) {
  const auto& last = record.epochs.back();
  return fmt::format("epoch {}: perplexity {:.1f}, in training {:.1f}, rate {:g}, {} tokens/s",
                     record.epochs.size(), last.perplexity, last.train_perplexity,
                     last.learning_rate, common::with_commas(last.tokens_per_second));
}

std::string verdict(const training_record& record) {
  return fmt::format("perplexity {:.1f}, of a unigram model {:.1f}; {} tokens in {:.1f} s, {}/s",
                     record.perplexity(), record.unigram_perplexity,
                     common::with_commas(double(record.tokens)), record.seconds,
                     common::with_commas(record.tokens_per_second()));
}

std::string to_svg(const training_record& record) {
  const auto learnt = smoothed(record.losses);
  const auto tested = tests(record.epochs);
  const auto [lowest, highest] =
      range({learnt, tested}, record.unigram_perplexity, double(record.words));
  common::line_plot picture(
      "Language model: perplexity by step",
      fmt::format("{} parameters on {} rank{}, {} tokens learnt in {:.1f} s, seed {}",
                  common::with_commas(double(record.parameters)), record.ranks,
                  record.ranks == 1 ? "" : "s", common::with_commas(double(record.tokens)),
                  record.seconds, record.seed),
      {.name = "Step", .first = 0, .last = double(record.losses.size())},
      {.name = "Perplexity", .first = lowest, .last = highest, .logarithmic = true});
  picture.add_level(fmt::format("unigram model: {:.1f}", record.unigram_perplexity),
                    common::plot_color(2), record.unigram_perplexity);
  picture.add_line("in training", common::plot_color(0), learnt, 1.5);
  picture.add_line("", common::plot_color(1), tested);
  picture.add_dots("text held out, after each epoch", common::plot_color(1), tested);
  return picture.svg();
}

std::string to_json(const training_record& record) {
  auto epochs = nlohmann::ordered_json::array();
  for (const auto& one : record.epochs)
    epochs.push_back({{"perplexity", one.perplexity},
                      {"train_perplexity", one.train_perplexity},
                      {"learning_rate", one.learning_rate},
                      {"tokens_per_second", one.tokens_per_second}});
  const nlohmann::ordered_json document = {
      {"perplexity", record.perplexity()},
      {"unigram_perplexity", record.unigram_perplexity},
      {"tokens_per_second", record.tokens_per_second()},
      {"tokens", record.tokens},
      {"steps", record.losses.size()},
      {"seconds", record.seconds},
      {"ranks", record.ranks},
      {"seed", record.seed},
      {"vocabulary", record.words},
      {"parameters", record.parameters},
      {"train_tokens", record.train_tokens},
      {"test_tokens", record.test_tokens},
      {"epochs", epochs},
  };
  return document.dump(2) + "\n";
}

std::string losses_text(const training_record& record) {
  std::string text;
  for (const float loss : record.losses) text += fmt::format("{}\n", loss);
  return text;
}

}  // namespace rnn
