// Processes with tensors on devices, of which one is killed inside of NCCL's double.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "tests/actors/node/job.hpp"
#include "tests/rank_process.hpp"
#include "troupe/actors/sync/futex.hpp"

namespace troupe::test {
namespace {

class nccl_processes : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(nccl_processes, name_the_one_that_is_killed_within_a_second) {
  const auto [place, dead] = GetParam();
  constexpr int size = 3;
  const temporary_folder folder;
  const auto file = (folder.path() / "meet").string();
  std::vector<std::unique_ptr<rank_process>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<rank_process>(std::vector<std::string>{
        std::string(TROUPE_TEST_PROGRAM_DIR) + "/nccl_survivor_program", std::to_string(rank),
        std::to_string(size), file, std::to_string(dead), place}));
  const auto all_have = [&](const char* what, int without) {
    for (int rank = 0; rank < size; ++rank)
      if (rank != without && !std::filesystem::exists(file + what + std::to_string(rank)))
        return false;
    return true;
  };
  ASSERT_TRUE(eventually([&] { return all_have(".running", -1); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ranks[static_cast<std::size_t>(dead)]->kill();
  const auto killed = clock::now();
  EXPECT_TRUE(eventually([&] { return all_have(".failed", dead); }));
  EXPECT_LT(clock::now() - killed, std::chrono::seconds(1));
  for (int rank = 0; rank < size; ++rank) {
    auto& one = *ranks[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(eventually([&] { return one.ended(); })) << rank;
    EXPECT_EQ(one.exit_code(), rank == dead ? -1 : 0) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(places, nccl_processes,
                         testing::Combine(testing::Values("collective", "init", "split"),
                                          testing::Values(0, 2)));

}  // namespace
}  // namespace troupe::test
