/// troupe: questions about this machine and its jobs, one subcommand each.

#include <CLI/CLI.hpp>
#include <iostream>

#include "troupe/apps/info/report.hpp"

int main(int argc, char** argv) {
  CLI::App app("Reports what Troupe finds on this machine.", "troupe");
  app.require_subcommand(1);
  app.set_version_flag("--version", "troupe " TROUPE_VERSION, "Print the version and exit");
  app.footer("Exit codes: 0, or 2 for a wrong command line.");

  bool json = false;
  CLI::App* info = app.add_subcommand(
      "info", "What this machine offers: versions, cores, memory, transports, GPUs, threads");
  info->add_flag("--json", json, "Write one JSON object");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& stopped) {
    return app.exit(stopped) == 0 ? 0 : 2;
  }

  const troupe::info::report report = troupe::info::machine_report();
  std::cout << (json ? report.dump(2) + "\n" : troupe::info::to_text(report));
  return 0;
}
