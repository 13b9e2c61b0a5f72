#pragma once

#include <nlohmann/json.hpp>

namespace troupe::info {

/// A report, or a part of one: keys in the order in which they are shown.
using report = nlohmann::ordered_json;

}  // namespace troupe::info
