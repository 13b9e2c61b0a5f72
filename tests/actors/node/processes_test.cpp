// Nodes in processes of their own, over UCX: this one is rank 0. One of them is killed.

#include <caf/send.hpp>

#include "tests/actors/node/job.hpp"
#include "tests/actors/node/rank_functions.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {

namespace {

class processes : public testing::Test {
protected:
  processes() : file_((folder_.path() / "meet").string()) {
    for (const auto* rank : {"1", "2"})
      ranks_.push_back(std::make_unique<rank_process>(
          std::vector<std::string>{TROUPE_TEST_PROGRAM_DIR "/rank_program", rank, "3", file_}));
    rpc_options options;
    options.rank = 0;
    options.world_size = 3;
    options.init_method = "file://" + file_;
    node_.emplace(init_rpc(options));
  }

  bool all_ended_well() {
    return eventually([&] { return ranks_[0]->ended() && ranks_[1]->ended(); }) &&
           ranks_[0]->ended_well() && ranks_[1]->ended_well();
  }

  temporary_folder folder_;
  std::string file_;
  std::vector<std::unique_ptr<rank_process>> ranks_;
  std::optional<node> node_;
};

TEST_F(processes, call_one_another) {
  EXPECT_EQ(node_->rpc_sync<&process_id>("worker1"), ranks_[0]->pid());
  EXPECT_EQ(node_->rpc_sync<&process_id>("worker2"), ranks_[1]->pid());
  EXPECT_EQ(node_->rpc_sync<&plus_one>(2, 41), 42);
  node_->shutdown(true, time_limit);
  EXPECT_TRUE(all_ended_well());
}

TEST_F(processes, hand_actors_on) {
  const auto here = node_->spawn(count_from, 100);
  EXPECT_EQ(node_->rpc_sync<&add_to>("worker1", here, 1), 101);
  EXPECT_EQ(node_->rpc_sync<&add_to>("worker2", here, 1), 102);
  auto there = node_->spawn_on<count_from>("worker1", 10);
  EXPECT_EQ(node_->rpc_sync<&add_to>("worker2", there, 5), 15);
  auto late = node_->rpc_async<&add_to>("worker2", there, 5);
  const auto third = node_->rpc_sync<&make_counter>("worker2", "worker1", 30);
  EXPECT_EQ(request(third, where{}).get_for(time_limit), "worker1");
  EXPECT_EQ(node_->rpc_sync<&add_to>("worker1", third, 3), 33);
  there = counter();  // worker2 may not know this yet
  EXPECT_EQ(late.get_for(time_limit), 20);
  node_->shutdown(true, time_limit);
  EXPECT_TRUE(all_ended_well());
}

struct look {};
TROUPE_MESSAGE(look)
using watchman = actor<answers<look, int>>;

watchman::behavior_type watch(watchman::pointer self, const counter& whom) {
  auto seen = std::make_shared<int>(0);
  self->set_down_handler([seen](const caf::down_msg&) { ++*seen; });
  self->monitor(whom);
  return {[seen](look) { return *seen; }};
}

TEST_F(processes, are_notified_of_one_that_is_killed) {
  const auto doomed = node_->spawn_on<count_from>("worker1", 0);
  const auto watching = node_->spawn(watch, doomed);
  EXPECT_EQ(request(watching, look{}).get_for(time_limit), 0);
  std::vector<future<void>> calls;
  for (int i = 0; i < 20; ++i) calls.push_back(node_->rpc_async<&never_answer>("worker1"));
  auto elsewhere = node_->rpc_async<&wait_for_the_loss_of>("worker2", std::string("worker1"));
  EXPECT_EQ(node_->rpc_sync<&plus_one>("worker1", 1), 2);  // they are there

  ranks_[0]->kill();
  for (auto& call : calls) {
    ASSERT_TRUE(call.wait_for(time_limit));
    try {
      call.get();
      FAIL() << "a killed process has answered";
    } catch (const peer_lost& e) {
      EXPECT_EQ(e.node(), "worker1");
      EXPECT_NE(e.function().find("never_answer"), std::string::npos);
    }
  }
  EXPECT_EQ(elsewhere.get_for(time_limit), "worker1");
  EXPECT_TRUE(eventually([&] { return request(watching, look{}).get_for(time_limit) == 1; }));
  EXPECT_THROW(request(doomed, total{}).get_for(time_limit), peer_lost);
  EXPECT_THROW(node_->rpc_sync<&plus_one>("worker1", 1), peer_lost);

  // The others go on, and end when all that is left is done.
  EXPECT_EQ(node_->rpc_sync<&plus_one>("worker2", 1), 2);
  const auto other = node_->spawn_on<count_from>("worker2", 7);
  EXPECT_EQ(request(other, add{1}).get_for(time_limit), 8);
  node_->shutdown(true, time_limit);
  EXPECT_TRUE(eventually([&] { return ranks_[1]->ended(); }));
  EXPECT_TRUE(ranks_[1]->ended_well());
}

}  // namespace

}  // namespace troupe::test
