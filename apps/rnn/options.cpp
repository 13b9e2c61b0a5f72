#include "troupe/apps/rnn/options.hpp"

#include "troupe/apps/common/command_line.hpp"
#include "troupe/apps/common/number_check.hpp"
#include "troupe/apps/rnn/words.hpp"

namespace rnn {

namespace {

using common::whole_number;

constexpr const char* footer = R"(Examples:
  build/apps/troupe-run -n 2 build/apps/rnn
  build/apps/troupe-run -n 2 build/apps/rnn --plot perplexity.svg
  build/apps/rnn --local --text book.txt

Rank 0 reads the text, has the LSTM and trains; the embedding table is on rank 1, the decoder on the
last rank. The exit code is 0 if the training finished, 2 for a wrong command line, and 1 for any
other failure.)";

void add_model_options(CLI::App& app, hyperparameters& chosen) {
  const auto size = whole_number<std::int64_t>(1, 1 << 20);
  app.add_option("--vocabulary", chosen.vocabulary,
                 "Vocabulary size; less frequent words share one entry")
      ->check(whole_number<std::int64_t>(2, 1 << 20))
      ->capture_default_str();
  app.add_option("--embedding", chosen.embedding, "Embedding dimension")
      ->check(size)
      ->capture_default_str();
  app.add_option("--hidden", chosen.hidden, "Units of each layer of the LSTM")
      ->check(size)
      ->capture_default_str();
  app.add_option("--layers", chosen.layers, "Layers of the LSTM")
      ->check(whole_number<std::int64_t>(1, 64))
      ->capture_default_str();
  app.add_option("--dropout", chosen.dropout, "Dropout probability")
      ->check(common::require<double>("a number from 0 to below 1",
                                      [](double x) { return x >= 0 && x < 1; }))
      ->capture_default_str();
  app.add_option("--seed", chosen.seed, "Seed of the weights and of dropout")
      ->check(whole_number<std::uint64_t>(0))
      ->capture_default_str();
}

void add_training_options(CLI::App& app, options& opts) {
  auto& chosen = opts.chosen;
  app.add_option("--epochs", chosen.epochs, "Epochs")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_option("--max-steps", opts.max_steps, "End the training after this many steps")
      ->check(whole_number<std::int64_t>(1));
  app.add_option("--batch-size", chosen.batch_size,
                 "Batch size: parts of the text that are read side by side")
      ->check(whole_number<std::int64_t>(1, 65536))
      ->capture_default_str();
  app.add_option("--length", chosen.length,
                 "Length of truncated backpropagation through time, in words")
      ->check(whole_number<std::int64_t>(1, 65536))
      ->capture_default_str();
  app.add_option("--learning-rate", chosen.learning_rate,
                 "Learning rate; divided by four after an epoch without improvement")
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
  app.add_option("--text", opts.text,
                 "The text, which rank 0 reads (default: the King James Bible)")
      ->type_name("FILE");
  add_model_options(app, opts.chosen);
  add_training_options(app, opts);
  app.add_flag("--local", opts.local, "Train in this process, without a network");
  common::add_job_options(app, opts, "before the training fails");
  app.add_option("--losses", opts.losses, "Write the loss of each step to this file, a line each")
      ->type_name("FILE");
  app.add_option("--plot", opts.plot, "Write the perplexity by step to this file, as SVG")
      ->type_name("FILE");
  if (!common::parse(app, argc, argv, exit_code)) return std::nullopt;
  return opts;
}

}  // namespace rnn
