#include "troupe/apps/rnn/training.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "troupe/apps/common/progress_bar.hpp"
#include "troupe/apps/common/worker_group.hpp"
#include "troupe/apps/rnn/batches.hpp"
#include "troupe/apps/rnn/corpus.hpp"
#include "troupe/apps/rnn/model.hpp"
#include "troupe/apps/rnn/words.hpp"

namespace rnn {

namespace {

using clock = std::chrono::steady_clock;

constexpr double annealing = 4;  // after an epoch that has not made the test better

double seconds_since(clock::time_point start) {
  return std::chrono::duration<double>(clock::now() - start).count();
}

// The mean over words of batches that differ in size, as a perplexity.
class mean_loss {
public:
  void add(double loss, std::int64_t words) {
    sum_ += loss * double(words);
    words_ += words;
  }
  double perplexity() const { return std::exp(sum_ / double(words_)); }

private:
  double sum_ = 0;
  std::int64_t words_ = 0;
};

class training {
public:
  training(const options& opts, common::status_line& line)
      : opts_(opts),
        line_(line),
        text_(make_corpus(lines_of_words(read_text(opts.text)), opts.chosen.vocabulary)),
        train_(text_.train, opts.chosen.batch_size, opts.chosen.length),
        test_(text_.test, opts.chosen.batch_size, opts.chosen.length) {
    record_.seed = opts.chosen.seed;
    record_.words = text_.words;
    record_.train_tokens = text_.train.size(0);
    record_.test_tokens = text_.test.size(0);
    record_.unigram_perplexity = unigram_perplexity(text_);
  }

  model_shape shape() const {
    const auto& chosen = opts_.chosen;
    return {text_.words,   chosen.embedding, chosen.hidden,
            chosen.layers, chosen.dropout,   chosen.seed};
  }

  training_record run(language_model& model, std::size_t ranks) {
    record_.ranks = ranks;
    record_.parameters = model.parameter_count();
    line_.say(fmt::format(
        "a model of {} parameters on {} rank{} learns {} tokens, {} words; perplexity of a unigram "
        "model: {:.1f}",
        common::with_commas(double(record_.parameters)), ranks, ranks == 1 ? "" : "s",
        common::with_commas(double(record_.train_tokens)),
        common::with_commas(double(record_.words)), record_.unigram_perplexity));
    double rate = opts_.chosen.learning_rate;
    for (int epoch = 0; epoch < opts_.chosen.epochs && !is_over(); ++epoch) {
      const double best = record_.perplexity();
      read(model, rate);
      line_.say(epoch_text(record_));
      if (record_.epochs.back().perplexity < best) continue;
      model.set_learning_rate(rate /= annealing);
    }
    line_.say(verdict(record_));
    return record_;
  }

private:
  bool is_over() const {
    return opts_.max_steps > 0 && std::int64_t(record_.losses.size()) >= opts_.max_steps;
  }

  // Learns the whole text once, and takes the test.
  void read(language_model& model, double rate) {
    common::progress_bar bar(line_, fmt::format("epoch {}", record_.epochs.size() + 1), "tokens",
                             train_.words());
    mean_loss mean;
    std::int64_t tokens = 0;
    model.begin_text();
    const auto start = clock::now();
    for (std::int64_t i = 0; i < train_.count() && !is_over(); ++i) {
      const auto next = train_[i];
      const double loss = model.learn(next);
      record_.losses.push_back(static_cast<float>(loss));
      mean.add(loss, next.size());
      tokens += next.size();
      const double seconds = seconds_since(start);
      bar.update(tokens, seconds,
                 bar.due(seconds) ? fmt::format("perplexity {:.1f}", mean.perplexity()) : "");
    }
    const double seconds = seconds_since(start);
    record_.tokens += tokens;
    record_.seconds += seconds;
    record_.epochs.push_back({.learning_rate = rate,
                              .train_perplexity = mean.perplexity(),
                              .perplexity = test(model),
                              .tokens_per_second = double(tokens) / seconds,
                              .steps = std::int64_t(record_.losses.size())});
  }

  double test(language_model& model) const {
    mean_loss mean;
    model.set_training(false);
    model.begin_text();
    for (std::int64_t i = 0; i < test_.count(); ++i) {
      const auto next = test_[i];
      mean.add(model.test(next), next.size());
    }
    model.set_training(true);
    return mean.perplexity();
  }

  const options& opts_;
  common::status_line& line_;
  const corpus text_;
  const batches train_;
  const batches test_;
  training_record record_;
};

}  // namespace

training_record train_on_ranks(const troupe::node& node, const options& opts,
                               common::status_line& line) {
  const auto places = common::homes(node);
  training all(opts, line);
  distributed_model model(node, places.front().name, places.back().name, all.shape(), opts.chosen);
  return all.run(model, std::min<std::size_t>(places.size() + 1, 3));
}

training_record train_here(const options& opts, common::status_line& line) {
  training all(opts, line);
  local_model model(all.shape(), opts.chosen);
  return all.run(model, 1);
}

}  // namespace rnn
