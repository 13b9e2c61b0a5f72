#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/actors/node/job.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {

/// Jobs whose ranks kill themselves inside of collectives (group_kills_program), by a seed each:
/// in shared memory and by messages in turn. Ends after so many kills, or a failure.
inline void kill_ranks(int kills, std::uint64_t seed) {
  constexpr int left = 2;  // as many as can still agree on who is lost
  for (; kills > 0 && !testing::Test::HasFailure(); ++seed) {
    const int here = std::min(kills, seed % 2 == 0 ? 5 : 3);
    const int size = left + here;
    kills -= here;
    const temporary_folder folder;
    std::vector<std::unique_ptr<rank_process>> ranks;
    for (int rank = 0; rank < size; ++rank)
      ranks.push_back(std::make_unique<rank_process>(std::vector<std::string>{
          TROUPE_TEST_PROGRAM_DIR "/group_kills_program", std::to_string(rank),
          std::to_string(size), (folder.path() / "meet").string(),
          seed % 4 < 2 ? "cpu:troupe" : "cpu:network", std::to_string(seed),
          std::to_string(here)}));
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
