#include "troupe/apps/pipeline/options.hpp"

#include <fmt/format.h>

#include "troupe/apps/common/command_line.hpp"
#include "troupe/apps/common/number_check.hpp"
#include "troupe/apps/parameter_server/digits.hpp"

namespace pipeline {

namespace {

using common::whole_number;

constexpr const char* footer = R"(Examples:
  build/apps/troupe-run -n 3 build/apps/pipeline --plot losses.svg
  build/apps/troupe-run -n 4 build/apps/pipeline --micro-batches 4,16 --blocks 24
  build/apps/pipeline --local --steps 230

Rank 0 has the digits and the loss; each other rank has a stage of the network. The exit code is 0
if all losses are those of one process, 2 for a wrong command line, and 1 for any other failure.)";

void add_network_options(CLI::App& app, hyperparameters& chosen) {
  app.add_option("--blocks", chosen.blocks, "Residual blocks, of two convolutions each")
      ->check(whole_number<std::int64_t>(1, 1024))
      ->capture_default_str();
  app.add_option("--width", chosen.width, "Channels of all layers")
      ->check(common::require<std::int64_t>(
          "a multiple of 4 from 4 to 4096",
          [](std::int64_t n) { return n >= 4 && n <= 4096 && n % 4 == 0; }))
      ->capture_default_str();
  app.add_option("--seed", chosen.seed, "Seed of the weights and of the order of the digits")
      ->check(whole_number<std::uint64_t>(0))
      ->capture_default_str();
}

void add_training_options(CLI::App& app, options& opts) {
  auto& chosen = opts.chosen;
  app.add_option("--steps", chosen.steps, "Batches of each training")
      ->check(whole_number<std::int64_t>(1))
      ->capture_default_str();
  app.add_option("--batch-size", chosen.batch_size, "Digits in a batch")
      ->check(whole_number<std::int64_t>(1, 65536))
      ->capture_default_str();
  app.add_option("--learning-rate", chosen.learning_rate, "Learning rate")
      ->check(common::positive_number())
      ->capture_default_str();
  app.add_option("--momentum", chosen.momentum, "Momentum")
      ->check(common::require<double>("a number from 0 to below 1",
                                      [](double x) { return x >= 0 && x < 1; }))
      ->capture_default_str();
  app.add_flag("--local", opts.local, "Train in this process, without a network");
}

void add_comparison_options(CLI::App& app, options& opts) {
  app.add_option("--micro-batches", opts.micro_batches,
                 "Micro-batches per batch, comma-separated; one training each")
      ->delimiter(',')
      ->check(whole_number<std::int64_t>(1, 65536))
      ->default_str(fmt::format("{}", fmt::join(opts.micro_batches, ",")));
  app.add_option("--in-flight", opts.in_flight,
                 "Batches under way at a time in one more training, with the last number of "
                 "micro-batches; 1: without it")
      ->check(whole_number<std::size_t>(1, 64))
      ->capture_default_str();
  app.add_option("--repeats", opts.repeats, "Repetitions of the measurement")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_option("--tolerance", opts.tolerance,
                 "By how much a loss may differ from that of one process")
      ->check(common::positive_number())
      ->capture_default_str();
}

void require_images_for_all(const options& opts) {
  for (const auto n : opts.micro_batches)
    if (n > opts.chosen.batch_size)
      throw CLI::ValidationError(
          "--micro-batches",
          fmt::format("a batch of {} cannot be cut into {}", opts.chosen.batch_size, n));
}

}  // namespace

std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code) {
  options opts;
  opts.data = parameter_server::default_digits_file();
  CLI::App app("A deep network whose stages on several nodes work on micro-batches at once.",
               "pipeline");
  common::describe(app, footer);
  add_network_options(app, opts.chosen);
  add_training_options(app, opts);
  add_comparison_options(app, opts);
  app.add_option(
         "--data", opts.data,
         "File of digits, which rank 0 reads (default: scikit-learn's, which come with Troupe)")
      ->type_name("FILE");
  common::add_job_options(app, opts, "before the training fails");
  app.add_option("--losses", opts.losses,
                 "Write the loss of each step to this file: a line each, a column for each way")
      ->type_name("FILE");
  app.add_option("--plot", opts.plot, "Write the loss by step, of each way, to this file, as SVG")
      ->type_name("FILE");
  app.callback([&opts] { require_images_for_all(opts); });
  if (!common::parse(app, argc, argv, exit_code)) return std::nullopt;
  return opts;
}

}  // namespace pipeline
