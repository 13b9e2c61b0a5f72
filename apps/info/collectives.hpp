#pragma once

#include <string>

#include "troupe/apps/info/report_value.hpp"

namespace troupe::info {

/// The ways that collectives of `ranks` ranks of this host take, by operation and bytes, with what
/// TROUPE_COLLECTIVES changes. Throws invalid_argument if that has no rules.
report collectives(int ranks);

/// As many as there are cores that this process may use: these spin while they wait.
int ranks_that_fit();

/// The same report as text for people, and how to change it.
std::string collectives_text(const report& of);

}  // namespace troupe::info
