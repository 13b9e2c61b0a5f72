// Groups of actors in several processes.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/actors/node/job.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {
namespace {

class actor_group_processes : public testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(actor_group_processes, have_members_on_all_ranks) {
  const auto& [size, kills] = GetParam();
  const temporary_folder folder;
  std::vector<std::unique_ptr<rank_process>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<rank_process>(std::vector<std::string>{
        std::string(TROUPE_TEST_PROGRAM_DIR) + "/actor_group_program", std::to_string(rank),
        std::to_string(size), (folder.path() / "meet").string(), kills}));
  for (int rank = 0; rank < size; ++rank) {
    auto& one = *ranks[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(eventually([&] { return one.ended(); })) << rank;
    EXPECT_EQ(one.exit_code(), kills == "kill" && rank == size - 1 ? 7 : 0) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(sizes, actor_group_processes,
                         testing::Combine(testing::Values(2, 3),
                                          testing::Values(std::string("none"),
                                                          std::string("kill"))));

}  // namespace
}  // namespace troupe::test
