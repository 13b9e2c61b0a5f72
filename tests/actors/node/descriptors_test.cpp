// File descriptors: how many a node needs, and what it reports when it may not have them.
#include "troupe/transport/system/descriptors.hpp"

#include <sys/resource.h>

#include <fstream>
#include <iterator>
#include <vector>

#include <ATen/ops/zeros.h>

#include "tests/actors/node/job.hpp"
#include "tests/actors/node/rank_functions.hpp"
#include "tests/rank_process.hpp"
#include "troupe/transport/tcp/tcp_transport.hpp"

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
  node.shutdown(true, time_limit);
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
  const auto shortage = transport::descriptor_shortage();
  const auto refusal =
      fault_of<transport_error>([&] { transport::need_descriptors(4, "for this test"); }).text;
  EXPECT_NO_THROW(transport::need_descriptors(3, "for this test"));
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(shortage,
            "; this process has 125 of the 128 file descriptors that it may have (ulimit -n)");
  EXPECT_THAT(refusal,
              HasSubstr("and needs 4 more for this test; raise the limit (ulimit -n 129 "));
}

class descriptors_of : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(transports, descriptors_of,
                         testing::Values("", "tcp", "ucx_tcp", "dynamic"), [](const auto& info) {
                           return info.param.empty() ? "memory" : info.param;
                         });

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
  if (GetParam() == "ucx_tcp") options.transport = backend::ucx_tcp;
  options.trusted_network = GetParam() == "ucx_tcp";
  options.admits_joiners = GetParam() == "dynamic";  // both UCX and TCP
  const auto node = init_rpc(options);
  for (std::uint32_t rank = 1; rank < ranks; ++rank)
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(node.rpc_sync<&plus_one>(rank, 41), 42);
      // Large enough for all the connections that a peer may have.
      EXPECT_EQ(node.rpc_sync<&same>(rank, at::zeros({100'000})).numel(), 100'000);
    }
  const auto used = transport::descriptors().open - before;
  RecordProperty("used", static_cast<int>(used));
  std::cout << "descriptors of a node with " << ranks - 1 << " peers: " << used << std::endl;
  EXPECT_LE(used, transport::descriptors_of_node(ranks - 1, transport::tcp_options().bulk_streams));
  node.shutdown(true, time_limit);
}

/// Ranks of a job that may have few descriptors, and what they report then.
class few_descriptors : public testing::Test {
protected:
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }

  /// Starts rank_program with these arguments behind the file.
  std::unique_ptr<rank_process> start(int limit, const std::string& rank, const std::string& size,
                                      const std::string& how = "") const {
    return std::make_unique<rank_process>(std::vector<std::string>{
        "sh", "-c", "ulimit -n " + std::to_string(limit) + "; exec \"$@\" 2> " + at(rank), "sh",
        program, rank, size, at("meet"), how});
  }

  std::string output_of(const std::string& rank) const {
    std::ifstream text(at(rank));
    return {std::istreambuf_iterator<char>(text), {}};
  }

private:
  const temporary_folder folder_;
};

TEST_F(few_descriptors, are_reported_by_every_rank) {
  const auto first = start(30, "0", "2");
  const auto second = start(30, "1", "2");
  EXPECT_TRUE(eventually([&] { return first->ended() && second->ended(); }));
  for (const std::string rank : {"0", "1"}) {
    EXPECT_THAT(output_of(rank), HasSubstr("this process may have 30 file descriptors, of which"));
    EXPECT_THAT(output_of(rank),
                HasSubstr("more for a node with 1 peers; raise the limit (ulimit -n "));
  }
}

TEST_F(few_descriptors, are_too_few_for_a_founder_who_must_have_room_for_joiners) {
  const auto founder = start(60, "0", "1", "dynamic");
  EXPECT_TRUE(eventually([&] { return founder->ended(); }));
  EXPECT_EQ(founder->exit_code(), 1);
  EXPECT_THAT(output_of("0"), HasSubstr("for a node with 0 peers and room for 8 joiners; raise"));
}

// It has enough to ask, and to learn how many there are.
TEST_F(few_descriptors, are_reported_by_a_joiner_of_a_large_job) {
  const auto joiner = start(56, "4", "4", "comes");
  std::vector<std::unique_ptr<rank_process>> others;
  for (const std::string rank : {"1", "2", "3"})
    others.push_back(std::make_unique<rank_process>(
        std::vector<std::string>{program, rank, "4", at("meet"), "dynamic"}));
  rpc_options options;
  options.rank = 0;
  options.world_size = 4;
  options.init_method = "file://" + at("meet");
  options.admits_joiners = true;
  const auto node = init_rpc(options);
  EXPECT_TRUE(eventually([&] { return joiner->ended(); }));
  EXPECT_EQ(joiner->exit_code(), 1);
  EXPECT_THAT(output_of("4"), HasSubstr("this process may have 56 file descriptors, of which"));
  EXPECT_THAT(output_of("4"), HasSubstr("for a node with 4 peers; raise the limit (ulimit -n "));
  // Nobody else minds.
  EXPECT_TRUE(eventually([&] { return node.epoch() >= 2 && node.world_size() == 4; }));
  for (std::uint32_t rank = 1; rank < 4; ++rank) EXPECT_EQ(node.rpc_sync<&plus_one>(rank, 41), 42);
  node.shutdown(true, time_limit);
}

}  // namespace
}  // namespace troupe::test
