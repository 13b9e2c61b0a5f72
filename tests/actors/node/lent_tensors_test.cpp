// Tensors that travel without a copy between nodes in processes of their own.

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include "tests/actors/node/job.hpp"
#include "tests/actors/node/lending_functions.hpp"
#include "tests/rank_process.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"
#include "troupe/transport/memory/arena.hpp"

namespace troupe::test {

namespace {

class lent_tensors : public testing::Test {
protected:
  lent_tensors() : file_((folder_.path() / "meet").string()) {
    for (const auto* rank : {"1", "2"})
      ranks_.push_back(std::make_unique<rank_process>(
          std::vector<std::string>{TROUPE_TEST_PROGRAM_DIR "/lending_program", rank, "3", file_}));
    rpc_options options;
    options.rank = 0;
    options.world_size = 3;
    options.init_method = "file://" + file_;
    options.lend_tensors = true;
    options.tensor_memory_limit = std::size_t{1} << 30;
    node_.emplace(init_rpc(options));
    // Memory is mapped as nodes meet; the first messages may come before both know.
    for (const auto* name : {"worker1", "worker2"})
      EXPECT_TRUE(eventually([&] {
        node_->rpc_sync<&let_go>(name);
        return lends_to(name);
      }));
  }

  bool lends_to(const std::string& name) {
    const auto t = at::full({1 << 16}, 1.0F);
    const auto back = node_->rpc_sync<&give_back>(name, t);
    return back.storage().data() == t.storage().data();
  }

  void end() {
    node_->shutdown(true, time_limit);
    EXPECT_TRUE(eventually([&] { return ranks_[0]->ended() && ranks_[1]->ended(); }));
    EXPECT_TRUE(ranks_[0]->ended_well() && ranks_[1]->ended_well());
  }

  static std::size_t in_use() { return transport::installed_arena()->count().in_use; }

  temporary_folder folder_;
  std::string file_;
  std::vector<std::unique_ptr<rank_process>> ranks_;
  std::optional<node> node_;
};

TEST_F(lent_tensors, come_back_as_the_same_memory) {
  const auto t = at::arange(1 << 20);
  const auto copies = copy_on_write::count().copies;
  const auto* const place = t.storage().data();
  for (int i = 0; i < 20; ++i) {
    const auto back = node_->rpc_sync<&give_back>("worker1", t);
    EXPECT_EQ(back.storage().data(), place);
    EXPECT_TRUE(back.equal(t));
  }
  EXPECT_EQ(copy_on_write::count().copies, copies);
  end();
}

TEST_F(lent_tensors, are_values_at_both_ends) {
  auto t = at::arange(1 << 20);
  node_->rpc_sync<&hold>("worker1", t);
  t.add_(1);  // worker1 holds it, so this copies
  EXPECT_TRUE(node_->rpc_sync<&let_go>("worker1"));
  auto back = node_->rpc_sync<&give_back>("worker2", t);
  back.add_(1);
  EXPECT_EQ(back[5].item<std::int64_t>(), 7);
  EXPECT_EQ(t[5].item<std::int64_t>(), 6);
  end();
}

TEST_F(lent_tensors, are_written_in_place_once_they_are_back) {
  auto t = at::arange(1 << 20);
  const auto* const place = t.storage().data();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(node_->rpc_sync<&give_back>("worker1", t).storage().data(), place);
    const auto copies = copy_on_write::count().copies;
    t.add_(1);
    EXPECT_EQ(copy_on_write::count().copies, copies) << i;
    EXPECT_EQ(node_->rpc_sync<&ends_of>("worker1", t), 2 * i + (1 << 20) + 1);
    t.add_(0);
    EXPECT_EQ(copy_on_write::count().copies, copies) << i;
    EXPECT_EQ(t.storage().data(), place);
  }
  end();
}

TEST_F(lent_tensors, are_written_in_place_once_an_object_has_read_them) {
  EXPECT_EQ(node_->rpc_sync<&copies_beside_an_object>("worker0", 1, 20), 0);
  end();
}

TEST_F(lent_tensors, are_counted) {
  constexpr std::size_t size = 4 << 20;
  EXPECT_EQ(node_->debug_info().traffic.lent, 0);
  {
    auto t = at::full({1 << 20}, 1.0F);
    node_->rpc_sync<&hold>("worker1", t);
    const auto lent = node_->debug_info();
    EXPECT_EQ(lent.traffic.lent, size);
    EXPECT_GE(lent.tensors.in_use, size);
    EXPECT_GE(lent.tensors.held, lent.tensors.in_use);
    EXPECT_EQ(lent.tensors.limit, std::size_t{1} << 30);
    t.add_(1);
    const auto written = node_->debug_info().tensors;
    EXPECT_EQ(written.forced_copies, lent.tensors.forced_copies + 1);
    EXPECT_EQ(written.forced_copy_bytes, lent.tensors.forced_copy_bytes + size);
  }
  {
    const auto borrowed = node_->rpc_sync<&make>("worker1", 1 << 20);
    EXPECT_EQ(node_->debug_info().traffic.borrowed, size);
  }
  EXPECT_EQ(node_->debug_info().traffic.borrowed, 0);
  EXPECT_TRUE(node_->rpc_sync<&let_go>("worker1"));
  EXPECT_EQ(node_->debug_info().traffic.lent, 0);
  end();
}

TEST_F(lent_tensors, of_a_killed_node_come_back) {
  constexpr std::size_t size = 4 << 20;
  {
    const auto t = at::full({1 << 20}, 1.0F);
    node_->rpc_sync<&hold>("worker1", t);
  }
  EXPECT_GE(in_use(), size);
  ranks_[0]->stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_GE(in_use(), size);
  ranks_[0]->kill();
  EXPECT_TRUE(eventually([&] { return in_use() < size; }));
}

// Three processes that send one another views of what they hold, write to all of it, and compare
// with deep copies.
TEST_F(lent_tensors, hold_what_deep_copies_hold) {
  auto first = node_->rpc_async<&wander>("worker1", std::uint64_t{1}, 400, 3u);
  auto second = node_->rpc_async<&wander>("worker2", std::uint64_t{2}, 400, 3u);
  EXPECT_TRUE(node_->rpc_sync<&wander>("worker0", std::uint64_t{3}, 400, 3u));
  EXPECT_TRUE(first.get_for(time_limit));
  EXPECT_TRUE(second.get_for(time_limit));
  for (const auto* name : {"worker0", "worker1", "worker2"})
    EXPECT_TRUE(node_->rpc_sync<&let_go>(name));
  end();
}

}  // namespace

}  // namespace troupe::test
