// Groups of processes, of which one is killed.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/actors/node/job.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {
namespace {

using processes = std::vector<std::unique_ptr<rank_process>>;

processes start(const char* program, int size, const std::vector<std::string>& words) {
  processes out;
  for (int rank = 0; rank < size; ++rank) {
    std::vector<std::string> all{std::string(TROUPE_TEST_PROGRAM_DIR) + "/" + program,
                                 std::to_string(rank), std::to_string(size)};
    all.insert(all.end(), words.begin(), words.end());
    out.push_back(std::make_unique<rank_process>(std::move(all)));
  }
  return out;
}

using program_on = std::tuple<const char*, int, const char*>;
class conforming_processes : public testing::TestWithParam<program_on> {};

TEST_P(conforming_processes, do_what_every_backend_does) {
  const auto [name, size, transport] = GetParam();
  const temporary_folder folder;
  const auto backend = std::string("cpu:") + (name == std::string("shared") ? "troupe" : name);
  auto ranks = start("group_conformance_program", size,
                     {(folder.path() / "meet").string(), backend, name, transport});
  for (auto& one : ranks) {
    EXPECT_TRUE(eventually([&] { return one->ended(); }));
    EXPECT_TRUE(one->ended_well());
  }
}

INSTANTIATE_TEST_SUITE_P(backends, conforming_processes,
                         testing::Values(program_on("network", 2, "automatic"),
                                         program_on("network", 3, "tcp"),
                                         program_on("shared", 3, "automatic")));

class group_of_processes : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(group_of_processes, goes_on_without_one_that_is_killed) {
  const auto [backend, dead] = GetParam();
  constexpr int size = 3;
  const temporary_folder folder;
  auto ranks = start("group_survivor_program", size, {(folder.path() / "meet").string(), backend});
  for (int rank = 0; rank < size; ++rank)
    ASSERT_TRUE(eventually([&] {
      return std::filesystem::exists(folder.path() / ("meet.running" + std::to_string(rank)));
    }));
  ranks[static_cast<std::size_t>(dead)]->kill();
  for (int rank = 0; rank < size; ++rank) {
    auto& one = *ranks[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(eventually([&] { return one.ended(); })) << rank;
    EXPECT_EQ(one.exit_code(), rank == dead ? -1 : 0) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(backends, group_of_processes,
                         testing::Combine(testing::Values("cpu:network", "cpu:troupe"),
                                          testing::Values(0, 2)));

}  // namespace
}  // namespace troupe::test
