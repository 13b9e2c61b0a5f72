#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace common {

/// Adds `--version`, and `footer` as the end of `--help`.
void describe(CLI::App& app, const std::string& footer);

/// Adds `--limit` and `--json`, which fill members of these names. `consequence` ends the help text
/// of `--limit`: "before the training fails".
void add_job_options(CLI::App& app, double& limit, std::string& json,
                     const std::string& consequence);
template <class Options>
void add_job_options(CLI::App& app, Options& opts, const std::string& consequence) {
  add_job_options(app, opts.limit, opts.json, consequence);
}

/// Reads the command line. Returns false if it asked for help or the version, or was wrong: the
/// answer has been printed then, and `exit_code` is 0 or 2.
bool parse(CLI::App& app, int argc, const char* const* argv, int& exit_code);

}  // namespace common
