#include "troupe/apps/parameter_server/options.hpp"

#include "troupe/apps/common/command_line.hpp"
#include "troupe/apps/common/number_check.hpp"
#include "troupe/apps/parameter_server/digits.hpp"

namespace parameter_server {

namespace {

using common::whole_number;

constexpr const char* footer = R"(Examples:
  build/apps/troupe-run -n 3 build/apps/parameter_server
  build/apps/parameter_server --local --seed 3

Rank 0 has the parameters and the digits; trainers take turns on the other ranks, each with its
share of the digits. The exit code is 0 if all trainers finished, 2 for a wrong command line, and 1
for any other failure.)";

void add_training_options(CLI::App& app, options& opts) {
  app.add_option("--trainers", opts.trainers,
                 "Number of trainers (default: one on each other rank)")
      ->check(whole_number<std::size_t>(1, 1024));
  app.add_option("--epochs", opts.chosen.epochs, "Epochs")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_option("--batch-size", opts.chosen.batch_size, "Digits in a batch")
      ->check(whole_number<std::int64_t>(1))
      ->capture_default_str();
  app.add_option("--learning-rate", opts.chosen.learning_rate, "Learning rate")
      ->check(common::positive_number())
      ->capture_default_str();
  app.add_option("--seed", opts.chosen.seed, "Seed of the weights and of the order of the digits")
      ->check(whole_number<std::uint64_t>(0))
      ->capture_default_str();
  app.add_flag("--local", opts.local, "Train in this process, without a network");
}

}  // namespace

std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code) {
  options opts;
  opts.data = default_digits_file();
  CLI::App app("Trainers that change the parameters of one model at once and without locks.",
               "parameter_server");
  common::describe(app, footer);
  add_training_options(app, opts);
  app.add_option(
         "--data", opts.data,
         "File of digits, which rank 0 reads (default: scikit-learn's, which come with Troupe)")
      ->type_name("FILE");
  common::add_job_options(app, opts, "before the others go on without it");
  if (!common::parse(app, argc, argv, exit_code)) return std::nullopt;
  return opts;
}

}  // namespace parameter_server
