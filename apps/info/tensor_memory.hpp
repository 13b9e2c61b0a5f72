#pragma once

#include "troupe/apps/info/report_value.hpp"

namespace troupe::info {

/// Whether tensors can lie where other processes read them, and how many.
report tensor_memory();

}  // namespace troupe::info
