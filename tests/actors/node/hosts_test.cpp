// A job on two hosts, as far as network namespaces are some: on each of them its nodes share
// memory, and between them they use TCP. This process is rank 0.
#include <ATen/ops/rand.h>

#include <memory>

#include "tests/actors/node/job.hpp"
#include "tests/actors/node/rank_functions.hpp"
#include "tests/hosts.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {
namespace {

class job_on_hosts : public testing::Test {
protected:
  void SetUp() override {
    if (!net_.problem().empty()) GTEST_SKIP() << net_.problem();
    here_ = std::make_unique<on_host>(net_, 0);
  }

  std::unique_ptr<rank_process> start(unsigned host, const std::string& rank,
                                      const std::string& how = "") const {
    auto words = net_.at(host);
    for (const auto& one : {std::string(TROUPE_TEST_PROGRAM_DIR "/rank_program"), rank,
                            std::string("4"), file(), how})
      words.push_back(one);
    return std::make_unique<rank_process>(words);
  }

  rpc_options founder() const {
    rpc_options options;
    options.rank = 0;
    options.world_size = 4;
    options.init_method = "file://" + file();
    options.init_timeout = time_limit;
    return options;
  }

  std::string file() const { return (folder_.path() / "meet").string(); }

  static transport::route route_to(const node& from, transport::rank_t to) {
    for (auto& one : from.routes())
      if (one.peer == to) return one;
    return {};
  }

  const hosts net_{2};
  const temporary_folder folder_;
  std::unique_ptr<on_host> here_;
};

TEST_F(job_on_hosts, calls_and_sends_tensors_and_notices_an_end) {
  const auto near = start(0, "1"), far = start(1, "2"), also_far = start(1, "3");
  const auto node = init_rpc(founder());
  const auto x = at::rand({300'000});
  for (const transport::rank_t rank : {1u, 2u, 3u}) {
    EXPECT_EQ(node.rpc_sync<&plus_one>(rank, 41), 42);
    EXPECT_TRUE(node.rpc_sync<&same>(rank, x).equal(x));
  }
  EXPECT_EQ(route_to(node, 1).backend, "ucx");
  EXPECT_THAT(route_to(node, 1).lanes, testing::HasSubstr("posix"));
  for (const transport::rank_t rank : {2u, 3u}) {
    EXPECT_EQ(route_to(node, rank).backend, "tcp");
    EXPECT_THAT(route_to(node, rank).reason, testing::HasSubstr("authenticated"));
  }
  // The other host's nodes share memory.
  const auto its = node.rpc_sync<&make_counter>(2, "worker3", 5);
  EXPECT_EQ(node.rpc_sync<&add_to>(2, its, 2), 7);
  also_far->kill();
  EXPECT_EQ(node.rpc_sync<&wait_for_the_loss_of>(1, "worker3"), "worker3");
  EXPECT_THROW(node.rpc_sync<&plus_one>(3, 1, timeout(time_limit)), peer_lost);
  EXPECT_EQ(node.rpc_sync<&plus_one>(2, 41), 42);
  node.shutdown(true, time_limit);
  EXPECT_TRUE(eventually([&] { return near->ended() && far->ended(); }));
  EXPECT_TRUE(near->ended_well());
  EXPECT_TRUE(far->ended_well());
}

TEST_F(job_on_hosts, admits_joiners_of_the_other_host) {
  auto options = founder();
  options.world_size = 1;
  options.admits_joiners = true;
  const auto node = init_rpc(options);
  const auto joiner = start(1, "0", "comes");
  EXPECT_TRUE(eventually([&] { return node.workers().size() == 2; }));
  EXPECT_EQ(node.rpc_sync<&plus_one>(1, 41), 42);
  EXPECT_EQ(route_to(node, 1).backend, "tcp");
  node.shutdown(true, time_limit);
  EXPECT_TRUE(eventually([&] { return joiner->ended(); }));
  EXPECT_TRUE(joiner->ended_well());
}

}  // namespace
}  // namespace troupe::test
