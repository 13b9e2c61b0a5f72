#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace batch {

/// How one way of serving the calls went.
struct way {
  std::string name;
  double seconds = 0;
  std::int64_t calls = 0;
  std::int64_t passes = 0;              ///< optimizer steps or forward passes
  std::string note{};                   ///< what else there is to say, for people
  std::vector<std::string> failures{};  ///< the members that did not finish, and why
};

/// The same calls, batched and one by one.
struct comparison {
  std::string job;
  std::uint64_t seed = 0;
  std::size_t members = 0;
  std::int64_t parameters = 0;
  way batched{};
  way one_by_one{};

  bool complete() const { return batched.failures.empty() && one_by_one.failures.empty(); }
  /// How often the time of the batched way goes into that of the other.
  double times_faster() const { return one_by_one.seconds / batched.seconds; }
};

/// "batched 3.1 s, one by one 9.8 s: 3.2 times faster"
std::string verdict(const comparison& result);

/// The comparison's numbers as a JSON object.
std::string to_json(const comparison& result);

}  // namespace batch
