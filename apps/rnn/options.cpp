#include "troupe/apps/rnn/options.hpp"

#include "troupe/apps/common/command_line.hpp"
#include "troupe/apps/common/number_check.hpp"
#include "troupe/apps/rnn/words.hpp"

namespace rnn {

namespace {

using common::whole_number;

constexpr const char* footer = R"(Examples:
  troupe-run -n 2 build/release/apps/rnn
  troupe-run -n 2 build/release/apps/rnn --plot perplexity.svg
  build/release/apps/rnn --local --text book.txt

Rank 0 reads the text, has the LSTM and trains; the embedding table is on rank 1, the decoder on the
last rank. The exit code is 0 when the training has come to its end, 2 for a wrong command line, and 1
for any other failure.)";

void add_model_options(CLI::App& app, hyperparameters& chosen) {
  const auto size = whole_number<std::int64_t>(1, 1 << 20);
  app.add_option("--vocabulary", chosen.vocabulary,
                 "Words that are told apart; the less frequent ones are one word")
      ->check(whole_number<std::int64_t>(2, 1 << 20))
      ->capture_default_str();
  app.add_option("--embedding", chosen.embedding, "Numbers that stand for a word")
      ->check(size)
      ->capture_default_str();
  app.add_option("--hidden", chosen.hidden, "Units of each layer of the LSTM")
      ->check(size)
      ->capture_default_str();
  app.add_option("--layers", chosen.layers, "Layers of the LSTM")
      ->check(whole_number<std::int64_t>(1, 64))
      ->capture_default_str();
  app.add_option("--dropout", chosen.dropout, "Share of what layers hand on that is left out")
      ->check(common::require<double>("a number from 0 to below 1",
                                      [](double x) { return x >= 0 && x < 1; }))
      ->capture_default_str();
  app.add_option("--seed", chosen.seed, "Seed of the weights and of dropout")
      ->check(whole_number<std::uint64_t>(0))
      ->capture_default_str();
}

void add_training_options(CLI::App& app, options& opts) {
  auto& chosen = opts.chosen;
  app.add_option("--epochs", chosen.epochs, "How often the text is read")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_option("--max-steps", opts.max_steps, "End the training after so many steps")
      ->check(whole_number<std::int64_t>(1));
  app.add_option("--batch-size", chosen.batch_size, "Parts of the text that are read side by side")
      ->check(whole_number<std::int64_t>(1, 65536))
      ->capture_default_str();
  app.add_option("--length", chosen.length, "Words through which gradients go back")
      ->check(whole_number<std::int64_t>(1, 65536))
      ->capture_default_str();
  app.add_option("--learning-rate", chosen.learning_rate,
                 "How far a gradient goes; a quarter of it after each epoch that was of no use")
      ->check(common::positive_number())
      ->capture_default_str();
  app.add_option("--clip", chosen.clip, "Largest norm of all gradients together")
      ->check(common::positive_number())
      ->capture_default_str();
}

}  // namespace

std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code) {
  options opts;
  opts.text = default_text_file();
  CLI::App app("Learns to predict the next word of a text, with a model on several nodes.", "rnn");
  common::describe(app, footer);
  app.add_option("--text", opts.text, "The text, which rank 0 reads")->capture_default_str();
  add_model_options(app, opts.chosen);
  add_training_options(app, opts);
  app.add_flag("--local", opts.local, "Train in this process, without a network");
  common::add_job_options(app, opts, "before the training fails");
  app.add_option("--losses", opts.losses, "Write the loss of each step to this file, a line each");
  app.add_option("--plot", opts.plot, "Write the perplexity by step to this file, as SVG");
  if (!common::parse(app, argc, argv, exit_code)) return std::nullopt;
  return opts;
}

}  // namespace rnn
