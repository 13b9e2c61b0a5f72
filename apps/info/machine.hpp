#pragma once

#include "troupe/apps/info/report_value.hpp"

namespace troupe::info {

/// Cores, memory, and whether processes of one host may copy from one another.
report machine();

}  // namespace troupe::info
