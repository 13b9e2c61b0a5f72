#include "apps/rnn/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/common/status_line.hpp"

namespace rnn {

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
