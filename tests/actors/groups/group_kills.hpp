#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/actors/node/job.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {

/// TROUPE_FIRST_SEED, or another one each time; prints it.
inline std::uint64_t first_seed_of_kills() {
  const auto* const set = std::getenv("TROUPE_FIRST_SEED");
  const auto out =
      set ? std::strtoull(set, nullptr, 10) : std::uint64_t{std::random_device()() % 1'000'000};
  std::cout << "from seed " << out << " on\n";
  return out;
}

/// Jobs whose ranks kill themselves (group_kills_program) inside of "collectives", or while groups
/// are "made": by a seed each, in shared memory, by messages, and with two ranks or three on each
/// of two hosts in turn. Ends after so many kills, or a failure.
inline void kill_ranks(int kills, std::uint64_t seed, const std::string& inside = "collectives") {
  constexpr int left = 2;  // as many as can still agree on who is lost
  for (; kills > 0 && !testing::Test::HasFailure(); ++seed) {
    struct kind {
      const char* backend;
      int kills;
    };
    static constexpr kind kinds[] = {{"cpu:troupe", 5}, {"cpu:network", 3}, {"cpu:hosts", 4}};
    const auto& [backend, most] = kinds[seed % std::size(kinds)];
    const int here = std::min(kills, most);
    const int size = left + here;
    kills -= here;
    const temporary_folder folder;
    std::vector<std::unique_ptr<rank_process>> ranks;
    for (int rank = 0; rank < size; ++rank)
      ranks.push_back(std::make_unique<rank_process>(std::vector<std::string>{
          TROUPE_TEST_PROGRAM_DIR "/group_kills_program", std::to_string(rank),
          std::to_string(size), (folder.path() / "meet").string(), backend, std::to_string(seed),
          std::to_string(here), inside}));
    int dead = 0, well = 0;
    for (auto& one : ranks) {
      // What hangs is killed when this returns.
      ASSERT_TRUE(eventually([&] { return one->ended(); })) << "seed " << seed << " hangs";
      dead += one->exit_code() == -1;
      well += one->ended_well();
    }
    EXPECT_EQ(dead, here) << "seed " << seed;
    EXPECT_EQ(well, left) << "seed " << seed;
  }
}

}  // namespace troupe::test
