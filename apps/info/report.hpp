#pragma once

#include <string>

#include "troupe/apps/info/report_value.hpp"

namespace troupe::info {

/// All that this machine offers, by heading: versions, machine, transports, gpus, threads.
report machine_report();

/// The report as text for people.
std::string to_text(const report& of);

}  // namespace troupe::info
