#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {
class simulation;
}

namespace troupe::test {

/// A random program of collectives on a bad network, under a seed. Three to six nodes make groups
/// of random members (new_group, split) and run random operations on them, blocking
/// ones and works, in one order that all share; meanwhile a node may crash, others hang or become
/// slow. Then the survivors shrink the world and go on, once or twice. What is checked:
///
/// 1. Every call ends: with the right values, or with an error that names operation and rank.
/// 2. Where no member is lost, no operation fails; unless a group was made on some members alone,
///    when one died, and those wait for the others.
/// 3. A group that has failed takes no more operations, on any of its members.
/// 4. All survivors shrink to the same group, and agree on what was completed before.
/// 5. The shrunken group works.
class random_collectives {
public:
  explicit random_collectives(std::uint64_t seed) : seed_(seed) {}

  /// Complaints; none if all was as it should be.
  std::vector<std::string> run();

  std::uint64_t steps() const noexcept { return steps_; }
  /// Calls that ended well, and with an error.
  std::uint64_t right() const noexcept { return right_; }
  std::uint64_t failed() const noexcept { return failed_; }

private:
  friend class random_collectives_run;

  const std::uint64_t seed_;
  std::uint64_t steps_ = 0, right_ = 0, failed_ = 0;
};

}  // namespace troupe::test
