/// troupe: questions about this machine and its jobs, one subcommand each.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "troupe/apps/info/collectives.hpp"
#include "troupe/apps/info/report.hpp"
#include "troupe/apps/trace/report.hpp"

namespace {

using namespace troupe;

void print_info(bool json, bool of_collectives, int ranks) {
  const auto all = of_collectives ? info::collectives(ranks) : info::machine_report();
  if (json)
    std::cout << all.dump(2) << '\n';
  else
    std::cout << (of_collectives ? info::collectives_text(all) : info::to_text(all));
}

int print_trace(bool json, const std::vector<std::string>& paths) {
  const auto groups = trace::compare(trace::read_dumps(paths));
  std::cout << (json ? trace::to_json(groups) : trace::to_text(groups));
  return trace::all_in_step(groups) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Reports what Troupe finds on this machine, and what jobs have left.", "troupe");
  app.require_subcommand(1);
  app.set_version_flag("--version", "troupe " TROUPE_VERSION, "Print the version and exit");
  app.footer(
      "Exit codes: 0; 1 if `trace` finds ranks out of step; 2 for a wrong command line or input.");

  bool json = false, of_collectives = false;
  int ranks = troupe::info::ranks_that_fit();
  std::vector<std::string> paths;
  CLI::App* info = app.add_subcommand(
      "info", "What this machine offers: versions, cores, memory, transports, GPUs, threads");
  info->add_flag("--json", json, "Write one JSON object");
  auto* ways = info->add_flag("--collectives", of_collectives,
                              "Which way collectives take on this host, and how to change it");
  info->add_option("--ranks", ranks, "Ranks on this host, for --collectives (default: its cores)")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N")
      ->needs(ways);
  CLI::App* trace = app.add_subcommand(
      "trace", "Which ranks are out of step, by traces that process groups have left");
  trace->add_flag("--json", json, "Write one JSON object");
  trace->add_option("files", paths, "Traces of the ranks of one job, or folders that have them")
      ->required()
      ->type_name("PATH");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& stopped) {
    return app.exit(stopped) == 0 ? 0 : 2;
  }
  try {
    if (trace->parsed()) return print_trace(json, paths);
    print_info(json, of_collectives, ranks);
    return 0;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "troupe: {}\n", failure.what());
    return 2;
  }
}
