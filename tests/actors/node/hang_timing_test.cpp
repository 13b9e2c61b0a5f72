// Processes that stand still (SIGSTOP) and go on (SIGCONT), for longer and for less than the limit.

#include "tests/actors/node/job.hpp"
#include "tests/actors/node/rank_functions.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {

namespace {

constexpr int fenced = 3;  // rank_program exits with it

class a_process_that_stands_still : public testing::Test {
protected:
  // This process is rank 0, and leads.
  void start(std::chrono::milliseconds hang_limit) {
    for (const auto* rank : {"1", "2"})
      ranks_.push_back(std::make_unique<rank_process>(
          std::vector<std::string>{TROUPE_TEST_PROGRAM_DIR "/rank_program", rank, "3", file_,
                                   std::to_string(hang_limit.count())}));
    rpc_options options;
    options.rank = 0;
    options.world_size = 3;
    options.init_method = "file://" + file_;
    options.hang_limit = hang_limit;
    node_.emplace(init_rpc(options));
  }

  temporary_folder folder_;
  std::string file_ = (folder_.path() / "meet").string();
  std::vector<std::unique_ptr<rank_process>> ranks_;
  std::optional<node> node_;
};

TEST_F(a_process_that_stands_still, is_shut_out_after_the_limit_and_learns_of_it) {
  start(2s);
  const auto there = node_->spawn_on<count_from>("worker1", 5);
  EXPECT_EQ(node_->rpc_sync<&add_to>("worker2", there, 1), 6);  // they are there
  ranks_[0]->stop();
  auto call = node_->rpc_async<&plus_one>("worker1", 1);
  auto elsewhere = node_->rpc_async<&add_to>("worker2", there, 1);
  const auto start = clock::now();
  ASSERT_TRUE(call.wait_for(time_limit));
  const auto after = clock::now() - start;
  // It may have been silent for an interval of pings, a quarter of the limit, before.
  EXPECT_GT(after, 1400ms);
  EXPECT_LT(after, time_limit / 2);
  const auto why = fault_of<peer_lost>([&] { call.get(); });
  EXPECT_EQ(why.node, "worker1");
  EXPECT_NE(why.text.find("has not answered for 2000 ms though its connection lives"),
            std::string::npos)
      << why.text;
  EXPECT_EQ(fault_of<peer_lost>([&] { elsewhere.get_for(time_limit); }).node, "worker1");
  EXPECT_FALSE(ranks_[0]->ended());
  EXPECT_THROW(request(there, total{}).get_for(time_limit), peer_lost);
  EXPECT_EQ(node_->rpc_sync<&plus_one>("worker2", 1), 2);

  ranks_[0]->go_on();
  EXPECT_TRUE(eventually([&] { return ranks_[0]->ended(); }));
  EXPECT_EQ(ranks_[0]->exit_code(), fenced);
  EXPECT_EQ(node_->rpc_sync<&plus_one>("worker2", 1), 2);
  node_->shutdown(true, time_limit);
  EXPECT_TRUE(eventually([&] { return ranks_[1]->ended(); }));
  EXPECT_TRUE(ranks_[1]->ended_well());
}

TEST_F(a_process_that_stands_still, for_less_than_the_limit_loses_nothing) {
  start(20s);
  const auto there = node_->spawn_on<count_from>("worker1", 0);
  EXPECT_EQ(node_->rpc_sync<&add_to>("worker2", there, 1), 1);
  ranks_[0]->stop();
  std::vector<future<int>> calls, sums;
  for (int i = 0; i < 100; ++i) {
    calls.push_back(node_->rpc_async<&plus_one>("worker1", i));
    sums.push_back(request(there, add{1}));
  }
  EXPECT_EQ(node_->rpc_sync<&plus_one>("worker2", 1), 2);
  std::this_thread::sleep_for(700ms);  // as long as it stands still
  EXPECT_FALSE(calls[0].ready());
  ranks_[0]->go_on();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(calls[i].get_for(time_limit), i + 1);
    EXPECT_EQ(sums[i].get_for(time_limit), i + 2);
  }
  EXPECT_EQ(node_->epoch(), 0u);
  node_->shutdown(true, time_limit);
  for (auto& rank : ranks_) {
    EXPECT_TRUE(eventually([&] { return rank->ended(); }));
    EXPECT_TRUE(rank->ended_well());
  }
}

}  // namespace

}  // namespace troupe::test
