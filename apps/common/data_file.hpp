#pragma once

#include <string>

namespace common {

/// Where the file `name` of an example's data is: in share/troupe of the installation that the
/// running program belongs to, if it is there; otherwise `built`, where the build has it.
std::string data_file(const std::string& name, const std::string& built);

}  // namespace common
