#pragma once

#include <unistd.h>

#include <functional>
#include <iostream>
#include <string>

#include "apps/common/files.hpp"
#include "apps/common/status_line.hpp"

namespace common {

/// Has `how` train, and writes its record as the options `json` and `losses` ask for; before it
/// begins it throws when one of these files cannot be written.
template <class Options, class Record>
Record run_recorded(const Options& opts, const std::function<Record(status_line&)>& how) {
  for (const auto& path : {opts.json, opts.losses})
    if (!path.empty()) require_writable(path);
  status_line line(std::cout, isatty(STDOUT_FILENO) != 0);
  auto record = how(line);
  if (!opts.json.empty()) write_file(opts.json, to_json(record));
  if (!opts.losses.empty()) write_file(opts.losses, losses_text(record));
  line.check();
  return record;
}

}  // namespace common
