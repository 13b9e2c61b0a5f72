#include "troupe/apps/batch/options.hpp"

#include "troupe/apps/common/command_line.hpp"
#include "troupe/apps/common/number_check.hpp"

namespace batch {

namespace {

using common::whole_number;

constexpr const char* footer = R"(Examples:
  build/apps/troupe-run -n 3 build/apps/batch server
  build/apps/troupe-run -n 3 build/apps/batch agent --observers 16

Rank 0 serves; trainers or observers take turns on the other ranks. The same calls are served twice,
in batches and one by one, and the times are compared. The exit code is 0 if all finished, 2 for a
wrong command line, and 1 for any other failure.)";

// What tells one job from the other.
struct job_description {
  job_kind job;
  const char* name;
  const char* about;
  const char* members_option;
  const char* members_about;
  std::size_t members;
  const char* rounds_option;
  const char* rounds_about;
  int rounds;
  std::int64_t width;
};

constexpr job_description jobs[] = {
    {job_kind::server, "server",
     "A parameter server: one optimizer step for the gradients of all trainers", "--trainers",
     "Number of trainers, in total", 8, "--rounds", "Gradients that each trainer sends", 100, 1024},
    {job_kind::agent, "agent", "An agent: one forward pass for the states of all observers",
     "--observers", "Number of observers, in total", 16, "--steps",
     "Steps that each observer takes", 200, 4096}};

void add_job(CLI::App& app, const job_description& job, options& opts) {
  auto* command = app.add_subcommand(job.name, job.about);
  command->add_option(job.members_option, opts.members, job.members_about)
      ->check(whole_number<std::size_t>(1, 4096))
      ->default_str(std::to_string(job.members));
  command->add_option(job.rounds_option, opts.rounds, job.rounds_about)
      ->check(whole_number(1))
      ->default_str(std::to_string(job.rounds));
  if (job.job == job_kind::server)
    command->add_option("--samples", opts.samples, "Samples of which a gradient is computed")
        ->check(whole_number(1, 65536))
        ->capture_default_str();
  command->add_option("--width", opts.width, "Units of the model's hidden layers")
      ->check(whole_number<std::int64_t>(1, 65536))
      ->default_str(std::to_string(job.width));
  command->add_option("--seed", opts.seed, "Seed of the weights and of all that is drawn")
      ->check(whole_number<std::uint64_t>(0))
      ->capture_default_str();
  common::add_job_options(*command, opts, "before the others go on without it");
  command->callback([&opts, &job] {
    opts.job = job.job;
    if (opts.members == 0) opts.members = job.members;
    if (opts.rounds == 0) opts.rounds = job.rounds;
    if (opts.width == 0) opts.width = job.width;
  });
}

}  // namespace

std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code) {
  options opts;
  CLI::App app("Calls that are answered in batches, by coroutines that wait for one another.",
               "batch");
  common::describe(app, footer);
  app.require_subcommand(1);
  for (const auto& job : jobs) add_job(app, job, opts);
  if (!common::parse(app, argc, argv, exit_code)) return std::nullopt;
  return opts;
}

}  // namespace batch
