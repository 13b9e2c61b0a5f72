#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::test {

/// What a survivor exits with when all was well, but its end took long.
inline constexpr int ended_slowly = 4;

/// A job of four processes of which one or two are killed at a random moment, as the seed decides
/// it, while all call each other without pause (survivor_program.cpp lists what the others check).
struct kill_run {
  /// `over`: "tcp", "ucx_tcp" or "shared_memory".
  kill_run(std::uint64_t seed, std::string over);

  /// Plays it; returns what was wrong, nothing when all was well. Once more when a survivor's end
  /// took long: a machine may stand still for a while, but not each time.
  std::vector<std::string> play() const;

  /// Plays it once; `slow`: the ranks whose end took long.
  std::vector<std::string> play_once(std::vector<std::uint32_t>& slow) const;

  std::uint64_t seed;
  std::string network;
  std::vector<std::uint32_t> victims;  ///< in the order in which they are killed
  bool elects;                         ///< another leader, if that is among the victims
};

/// Plays one seed after the other until so many processes were killed, and prints how many and how
/// long. A seed that goes wrong fails the test, and ends it. With TROUPE_KILL_SEED=n in the
/// environment it plays that seed alone.
void kill_at_random(const std::string& network, int kills, std::uint64_t first_seed);

}  // namespace troupe::test
