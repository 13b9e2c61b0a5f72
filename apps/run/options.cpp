#include "troupe/apps/run/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>

namespace troupe::launcher {

namespace {

constexpr const char* footer = R"(Examples:
  build/apps/troupe-run -n 3 build/apps/cartpole --plot reward.svg
  troupe-run -n 2 --threads 4 ./train --epochs 10
  troupe-run --nnodes 2 --node-rank 0 --rdzv tcp://10.0.0.1:29500 -n 4 ./train
  troupe-run --nnodes 2 --node-rank 1 --rdzv tcp://10.0.0.1:29500 -n 4 ./train

Each rank finds in its environment: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
MASTER_PORT, TROUPE_JOB_ID, TROUPE_JOB_SECRET, OMP_NUM_THREADS and MKL_NUM_THREADS (cores over
ranks, unless already set or given by --threads). Unless already set, or --plain-memory is given,
also THP_MEM_ALLOC_ENABLE=1, with which libtorch puts large tensors on huge pages, which travel
faster, and MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_ and MALLOC_TOP_PAD_, with which libc
keeps the memory of freed tensors below 32 MiB for later ones: new pages cost more than most
operations. A rank may then hold some hundred MiB that it does not use, and more where many threads
make tensors.
Rank 0 reads standard input, the others nothing.

A job of several machines needs one secret on all of them: 64 hexadecimal digits, made for example
by `openssl rand -hex 32`, in TROUPE_JOB_SECRET or in a file that only you can read (--secret-file).

When a rank fails, the others are ended: SIGTERM, and SIGKILL after the grace. Ctrl-C, SIGTERM and
SIGHUP are passed on; a second one kills at once. No process stays behind.

Exit codes: 0 when every rank exited with 0; otherwise the code of the rank that failed first, or
128 + the signal that ended it; 128 + the signal when interrupted; 2 for a wrong command line,
126 when the program cannot be run, 127 when it is not found, 1 for any other failure.)";

/// CLI11 does not know of the program that follows the options.
class help_text : public CLI::Formatter {
  std::string make_usage(const CLI::App*, std::string name) const override {
    return "Usage: " + name + " [OPTIONS] PROGRAM [ARGS...]\n";
  }
};

void add_job_options(CLI::App& app, run_options& options) {
  app.add_option("-n,--nproc", options.ranks, "Ranks to start on this machine")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--nnodes", options.nodes, "Machines of the job; each runs --nproc ranks")
      ->check(CLI::Range(1, 65536).description(""))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--node-rank", options.node_rank, "Which of the machines this one is, from 0")
      ->check(CLI::Range(0, 65535).description(""))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--rdzv", options.rendezvous,
                 "Where the ranks meet, on machine 0: tcp://host:port "
                 "(default: this machine, at a free port)")
      ->type_name("URL");
  app.add_option("--secret-file", options.secret_file,
                 "File with the job's secret (default: TROUPE_JOB_SECRET, or a fresh one when the "
                 "job is on this machine alone)")
      ->type_name("FILE");
  app.add_option("--job-id", options.job_id,
                 "Name of the job, without blanks, for its messages (default: generated)")
      ->type_name("NAME");
}

void add_running_options(CLI::App& app, run_options& options, double& grace) {
  app.add_option("--threads", options.threads,
                 "Threads of each rank's tensor operations (default: cores / ranks)")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
  static const std::map<std::string, pinning> pins = {{"none", pinning::none},
                                                      {"cores", pinning::cores}};
  app.add_option_function<std::string>(
         "--pin", [&options](const std::string& to) { options.pin = pins.at(to); },
         "Tie ranks to processors: none, or cores, an equal share of this machine's for each rank")
      ->check(CLI::IsMember(&pins).description(""))
      ->type_name("TO")
      ->default_str("none");
  app.add_flag_callback(
      "--plain-memory", [&options] { options.keeps_memory = false; },
      "Leave memory to libc's and libtorch's defaults");
  app.add_option("--grace", grace, "Time between SIGTERM and SIGKILL, for example 5s, 500ms or 2m")
      ->transform(CLI::AsNumberWithUnit(
                      std::map<std::string, double>{{"ms", 1e-3}, {"s", 1.0}, {"m", 60.0}},
                      CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME")
                      .description(""))
      ->type_name("TIME")
      ->default_str("5s");
  app.add_flag_callback(
      "--no-prefix", [&options] { options.prefix = false; },
      "Do not put the rank before each line of output");
  static const std::map<std::string, colour_mode> modes = {{"auto", colour_mode::automatic},
                                                           {"always", colour_mode::always},
                                                           {"never", colour_mode::never}};
  app.add_option_function<std::string>(
         "--colour,--color",
         [&options](const std::string& mode) { options.colour = modes.at(mode); },
         "Colour the ranks: auto, always or never")
      ->check(CLI::IsMember(&modes).description(""))
      ->type_name("WHEN")
      ->default_str("auto");
}

/// Takes what follows our own options; throws CLI::ParseError when that is not a program.
std::vector<std::string> take_command(const CLI::App& app) {
  std::vector<std::string> command = app.remaining();
  if (!command.empty() && command.front() == "--") {
    command.erase(command.begin());
  } else if (!command.empty() && command.front().starts_with('-')) {
    throw CLI::ValidationError("unknown option " + command.front() +
                               " before the program; see troupe-run --help");
  }
  if (command.empty())
    throw CLI::ValidationError("no program given; for example: troupe-run -n 2 ./train");
  return command;
}

void check(const run_options& options, double grace) {
  if (!std::isfinite(grace) || grace < 0 || grace > 86400)
    throw CLI::ValidationError("--grace: must be between 0s and a day");
  if (options.node_rank >= options.nodes)
    throw CLI::ValidationError("--node-rank " + std::to_string(options.node_rank) +
                               ": must be below --nnodes " + std::to_string(options.nodes));
  // It stands in logs and messages, where a blank or a control character would break it up.
  if (std::any_of(options.job_id.begin(), options.job_id.end(),
                  [](unsigned char c) { return c <= ' ' || c == 0x7f; }))
    throw CLI::ValidationError("--job-id: must have no blanks and no control characters");
  if (options.nodes > 1 && options.rendezvous.empty())
    throw CLI::ValidationError("--nnodes " + std::to_string(options.nodes) +
                               ": say where the ranks meet with --rdzv tcp://host:port");
}

}  // namespace

std::optional<run_options> parse_options(int argc, const char* const* argv, int& exit_code) {
  run_options options;
  double grace = 5;
  CLI::App app("Starts the ranks of a job on this machine and supervises them.", "troupe-run");
  app.formatter(std::make_shared<help_text>());
  app.footer(footer);
  app.set_version_flag("--version", "troupe-run " TROUPE_VERSION, "Print the version and exit");
  app.prefix_command();
  add_job_options(app, options);
  add_running_options(app, options, grace);
  try {
    app.parse(argc, argv);
    options.command = take_command(app);
    check(options, grace);
  } catch (const CLI::Success& asked) {
    exit_code = app.exit(asked);
    return std::nullopt;
  } catch (const CLI::ParseError& wrong) {
    std::cerr << "troupe-run: " << wrong.what() << '\n';
    exit_code = 2;
    return std::nullopt;
  }
  options.grace = std::chrono::milliseconds(std::llround(grace * 1000));
  return options;
}

}  // namespace troupe::launcher
