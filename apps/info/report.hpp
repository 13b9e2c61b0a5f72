#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace troupe::info {

/// Keys in the order in which they are shown.
using report = nlohmann::ordered_json;

/// Everything that this machine offers, by heading: versions, machine, transports, gpus, threads.
report machine_report();

/// The report as a person reads it.
std::string to_text(const report& of);

}  // namespace troupe::info
