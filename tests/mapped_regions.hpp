#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace troupe::test {

/// How many regions of other processes' memory this process has mapped.
inline std::uint64_t regions_mapped() {
  std::ifstream maps("/proc/self/maps");
  std::uint64_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find(" r--s ") != line.npos && line.find("memfd:") != line.npos;
  return count;
}

}  // namespace troupe::test
