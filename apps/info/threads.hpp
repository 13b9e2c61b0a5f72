#pragma once

#include "troupe/apps/info/report_value.hpp"

namespace troupe::info {

/// How many threads tensor operations would use here, and what has set it.
report threads();

}  // namespace troupe::info
