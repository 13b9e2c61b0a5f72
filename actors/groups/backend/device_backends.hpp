#pragma once

#include <map>
#include <string>

namespace troupe::groups {

/// The backends of a group by device type, from "troupe", for all devices that it takes, or
/// "cpu:troupe,cuda:nccl". Names are in any case and become lower case. Throws invalid_argument for
/// pairs that are none, devices that are named twice or that libtorch does not know, and backends
/// that are not registered or do not take that device.
std::map<std::string, std::string> parse_backends(const std::string& text);

/// "cpu:troupe,cuda:nccl"; the name alone of one that takes any device.
std::string to_string(const std::map<std::string, std::string>& backends);

}  // namespace troupe::groups
