#pragma once

#include <unistd.h>

#include <functional>
#include <iostream>
#include <string>

#include "troupe/apps/common/files.hpp"
#include "troupe/apps/common/status_line.hpp"

namespace common {

/// Has `how` train, and writes its record as the options `json`, `losses` and `plot` ask for;
/// before it begins it throws when one of these files cannot be written.
template <class Options, class Record>
Record run_recorded(const Options& opts, const std::function<Record(status_line&)>& how) {
  for (const auto& path : {opts.json, opts.losses, opts.plot})
    if (!path.empty()) require_writable(path);
  status_line line(std::cout, isatty(STDOUT_FILENO) != 0);
  auto record = how(line);
  if (!opts.json.empty()) write_file(opts.json, to_json(record));
  if (!opts.losses.empty()) write_file(opts.losses, losses_text(record));
  if (!opts.plot.empty()) write_file(opts.plot, to_svg(record));
  line.check();
  return record;
}

}  // namespace common
