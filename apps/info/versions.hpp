#pragma once

#include "troupe/apps/info/report_value.hpp"

namespace troupe::info {

/// Versions of Troupe and of what it stands on; of UCX the one that was loaded.
report versions();

}  // namespace troupe::info
