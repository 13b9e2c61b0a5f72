#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <troupe/profiling.hpp>
#include <vector>

namespace troupe::test {

inline std::vector<profile_event> named(const std::vector<profile_event>& all,
                                        const std::string& name) {
  std::vector<profile_event> out;
  std::copy_if(all.begin(), all.end(), std::back_inserter(out),
               [&](const profile_event& one) { return one.name == name; });
  return out;
}

/// The one of that name.
inline profile_event only(const std::vector<profile_event>& all, const std::string& name) {
  const auto found = named(all, name);
  EXPECT_EQ(found.size(), 1u) << name;
  return found.empty() ? profile_event() : found.front();
}

inline std::int64_t end_of(const profile_event& one) { return one.start_ns + one.duration_ns; }

}  // namespace troupe::test
