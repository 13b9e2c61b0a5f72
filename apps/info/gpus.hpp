#pragma once

#include "troupe/apps/info/report_value.hpp"

namespace troupe::info {

/// The GPUs that the CUDA driver offers, and how they were looked for.
report gpus();

}  // namespace troupe::info
