#include "troupe/apps/weight_sync/options.hpp"

#include "troupe/apps/common/command_line.hpp"
#include "troupe/apps/common/number_check.hpp"

namespace weight_sync {

namespace {

using common::whole_number;

constexpr const char* footer = R"(Examples:
  build/apps/troupe-run -n 5 build/apps/weight_sync --plot staleness.svg
  build/apps/troupe-run -n 5 build/apps/weight_sync --copies
  build/apps/troupe-run -n 3 build/apps/weight_sync --width 256 --steps 200

Rank 0 trains; each other rank samples. The exit code is 0 if each sampler has had the trainer's own
weights, each time all of one version, 2 for a wrong command line, and 1 for any other failure.)";

}  // namespace

std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code) {
  options opts;
  CLI::App app(
      "A trainer whose samplers follow its weights, by pulling them and by being sent them.",
      "weight_sync");
  common::describe(app, footer);
  app.add_option("--width", opts.shape.width, "Width of the network; a layer has its square")
      ->check(whole_number<std::int64_t>(1, 65536))
      ->capture_default_str();
  app.add_option("--layers", opts.shape.layers, "Layers of the network")
      ->check(whole_number<std::int64_t>(1, 1024))
      ->capture_default_str();
  app.add_option("--steps", opts.steps, "Steps of the trainer, with each method")
      ->check(whole_number<std::int64_t>(1))
      ->capture_default_str();
  app.add_option("--batch-size", opts.batch_size, "Rows in a batch, of the trainer and of samplers")
      ->check(whole_number<std::int64_t>(1, 65536))
      ->capture_default_str();
  app.add_option("--waits", opts.waits, "Versions for samplers that only wait for them")
      ->check(whole_number<std::int64_t>(1))
      ->capture_default_str();
  app.add_option("--learning-rate", opts.learning_rate, "Learning rate")
      ->check(common::positive_number())
      ->capture_default_str();
  app.add_flag("--readers-wait", opts.readers_wait,
               "Pulls wait while the trainer writes, so that it copies only what is still read");
  app.add_flag("--copies", opts.copies,
               "Copy tensors between processes of a host, instead of lending them");
  app.add_option("--seed", opts.seed, "Seed of the weights and of the batches")
      ->check(whole_number<std::uint64_t>(0))
      ->capture_default_str();
  common::add_job_options(app, opts, "before the run fails");
  app.add_option("--plot", opts.plot, "Write how old the weights of each batch were, as SVG")
      ->type_name("FILE");
  if (!common::parse(app, argc, argv, exit_code)) return std::nullopt;
  return opts;
}

}  // namespace weight_sync
