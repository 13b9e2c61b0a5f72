#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <type_traits>

#include "troupe/apps/common/files.hpp"
#include "troupe/apps/common/status_line.hpp"
#include "troupe/apps/common/worker_group.hpp"

// What the main functions of the programs have in common.
namespace common {

/// Reads the command line with `parse` and calls `run`. Returns the exit code: 0 if `run` returns
/// true; 1 if it returns false, or throws, which is printed to standard error; without a call of
/// `run`, what `parse` says.
template <class Options>
int program(const char* name, int argc, char** argv,
            std::optional<Options> (*parse)(int, const char* const*, int&),
            const std::type_identity_t<std::function<bool(const Options&)>>& run) {
  try {
    int exit_code = 0;
    const auto opts = parse(argc, argv, exit_code);
    if (!opts) return exit_code;
    return run(*opts) ? 0 : 1;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "{}: {}\n", name, failure.what());
    return 1;
  }
}

/// Calls `run` with a line of standard output for its progress, and writes the record that it
/// returns to the files of the options: to_json(record) to `json` and, if there are such options,
/// losses_text(record) to `losses` and to_svg(record) to `plot`. Throws before the run if one of
/// the files cannot be written, and after it if something could not be.
template <class Options, class Run>
auto run_recorded(const Options& opts, const Run& run) {
  constexpr bool has_losses = requires { opts.losses; };
  constexpr bool has_plot = requires { opts.plot; };
  const auto check = [](const std::string& path) {
    if (!path.empty()) require_writable(path);
  };
  check(opts.json);
  if constexpr (has_losses) check(opts.losses);
  if constexpr (has_plot) check(opts.plot);
  status_line line(std::cout, isatty(STDOUT_FILENO) != 0);
  auto record = run(line);
  if (!opts.json.empty()) write_file(opts.json, to_json(record));
  if constexpr (has_losses)
    if (!opts.losses.empty()) write_file(opts.losses, losses_text(record));
  if constexpr (has_plot)
    if (!opts.plot.empty()) write_file(opts.plot, to_svg(record));
  line.check();
  return record;
}

/// A recorded run of a job (run_job), led by rank 0 with `on_ranks`; in this process, with `here`,
/// if the option `local` says so. Returns whether `succeeded` holds of the record; true on other
/// ranks.
template <class Options, class Record>
bool run_job_or_here(const Options& opts,
                     Record (*on_ranks)(const troupe::node&, const Options&, status_line&),
                     Record (*here)(const Options&, status_line&),
                     bool (*succeeded)(const Record&)) {
  if (opts.local)
    return succeeded(run_recorded(opts, [&](status_line& line) { return here(opts, line); }));
  return run_job(opts.limit, [&](const troupe::node& node) {
    return succeeded(
        run_recorded(opts, [&](status_line& line) { return on_ranks(node, opts, line); }));
  });
}

}  // namespace common
