#include "troupe/apps/common/command_line.hpp"

#include "troupe/apps/common/number_check.hpp"

namespace common {

void describe(CLI::App& app, const std::string& footer) {
  app.footer(footer);
  app.set_version_flag("--version", app.get_name() + " " TROUPE_VERSION,
                       "Print the version and exit");
}

void add_job_options(CLI::App& app, double& limit, std::string& json,
                     const std::string& consequence) {
  app.add_option("--limit", limit, "Seconds for which a rank may be silent " + consequence)
      ->check(require<double>("a number from 0.1 to 86400",
                              [](double s) { return s >= 0.1 && s <= 86400; }))
      ->capture_default_str();
  app.add_option("--json", json, "Write the run's numbers to this file, as JSON")
      ->type_name("FILE");
}

bool parse(CLI::App& app, int argc, const char* const* argv, int& exit_code) {
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::ParseError& stop) {
    exit_code = app.exit(stop) == 0 ? 0 : 2;
    return false;
  }
}

}  // namespace common
