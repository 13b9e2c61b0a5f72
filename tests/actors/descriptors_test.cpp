// File descriptors: how many a node needs, and what it says when it may not have them.
#include "transport/descriptors.hpp"

#include <sys/resource.h>

#include <fstream>
#include <iterator>
#include <vector>

#include "tests/actors/job.hpp"
#include "tests/actors/rank_functions.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

const std::string program = TROUPE_TEST_PROGRAM_DIR "/rank_program";

rlimit limits() {
  rlimit out{};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &out), 0);
  return out;
}

TEST(descriptors, are_as_many_as_the_system_allows_once_a_node_is_made) {
  auto low = limits();
  if (low.rlim_max <= 256) GTEST_SKIP() << "the hard limit is " << low.rlim_max;
  low.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const temporary_folder folder;
  rpc_options options;
  options.rank = 0;
  options.world_size = 1;
  options.init_method = "file://" + (folder.path() / "meet").string();
  const auto node = init_rpc(options);
  EXPECT_EQ(limits().rlim_cur, limits().rlim_max);
  node.shutdown(true, patience);
}

TEST(descriptors, are_counted_without_needing_one) {
  const auto before = transport::descriptors();
  EXPECT_EQ(before.limit, limits().rlim_cur);
  const std::ifstream one("/dev/null"), two("/dev/null");
  EXPECT_EQ(transport::descriptors().open, before.open + 2);
  EXPECT_FALSE(transport::descriptors().scarce());
  EXPECT_EQ(transport::descriptor_shortage(), "");
}

TEST(descriptors, that_are_nearly_all_used_are_named) {
  const auto before = limits();
  auto few = before;
  few.rlim_cur = 128;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_EQ(transport::descriptor_shortage(), "");
  std::vector<std::ifstream> used;
  while (transport::descriptors().open < 125 && used.size() < 128) used.emplace_back("/dev/null");
  const auto said = transport::descriptor_shortage();
  const auto refusal =
      fault_of<transport_error>([&] { transport::need_descriptors(4, "for this test"); }).text;
  EXPECT_NO_THROW(transport::need_descriptors(3, "for this test"));
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(said,
            "; this process has 125 of the 128 file descriptors that it may have (ulimit -n)");
  EXPECT_THAT(refusal,
              HasSubstr("and needs 4 more for this test; raise the limit (ulimit -n 129 "));
}

class descriptors_of : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(transports, descriptors_of, testing::Values("", "tcp"),
                         [](const auto& info) { return info.param.empty() ? "memory" : "tcp"; });

// Here the one that is measured, in processes the others.
TEST_P(descriptors_of, a_node_are_no_more_than_it_makes_sure_of) {
  constexpr std::uint32_t ranks = 4;
  const temporary_folder folder;
  const auto file = (folder.path() / "meet").string();
  std::vector<std::unique_ptr<rank_process>> others;
  for (std::uint32_t rank = 1; rank < ranks; ++rank)
    others.push_back(std::make_unique<rank_process>(std::vector<std::string>{
        program, std::to_string(rank), std::to_string(ranks), file, GetParam()}));
  const auto before = transport::descriptors().open;
  rpc_options options;
  options.rank = 0;
  options.world_size = ranks;
  options.init_method = "file://" + file;
  if (GetParam() == "tcp") options.transport = backend::tcp;
  options.trusted_network = true;
  const auto node = init_rpc(options);
  for (std::uint32_t rank = 1; rank < ranks; ++rank)
    for (int i = 0; i < 10; ++i) EXPECT_EQ(node.rpc_sync<&plus_one>(rank, 41), 42);
  const auto used = transport::descriptors().open - before;
  RecordProperty("used", static_cast<int>(used));
  std::cout << "descriptors of a node with " << ranks - 1 << " peers: " << used << std::endl;
  EXPECT_LE(used, transport::descriptors_of_node(ranks - 1));
  node.shutdown(true, patience);
}

TEST(descriptors, that_are_too_few_are_told_by_every_rank) {
  const temporary_folder folder;
  const auto at = [&](const std::string& name) { return (folder.path() / name).string(); };
  std::vector<std::unique_ptr<rank_process>> ranks;
  for (const std::string rank : {"0", "1"})
    ranks.push_back(std::make_unique<rank_process>(
        std::vector<std::string>{"sh", "-c", "ulimit -n 30; exec \"$@\" 2> " + at(rank), "sh",
                                 program, rank, "2", at("meet")}));
  for (auto& one : ranks) EXPECT_TRUE(eventually([&] { return one->ended(); }));
  for (const std::string rank : {"0", "1"}) {
    std::ifstream text(at(rank));
    const std::string said{std::istreambuf_iterator<char>(text), {}};
    EXPECT_THAT(said, HasSubstr("this process may have 30 file descriptors, of which"));
    EXPECT_THAT(said, HasSubstr("more for a node with 1 peers; raise the limit (ulimit -n "));
  }
}

}  // namespace
}  // namespace troupe::test
