#pragma once

#include <map>
#include <string>

namespace troupe::transport {

/// The options of a registered transport, by name. Only its factory knows what they mean.
using transport_options = std::map<std::string, std::string>;

}  // namespace troupe::transport
