// Tensors whose memory is handed over to nodes in processes of their own: what a program moves into
// a call or a message, and fresh results.

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include "tests/actors/node/lending_job.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"
#include "troupe/transport/memory/arena.hpp"

namespace troupe::test {

namespace {

constexpr std::int64_t integers = 1 << 20;

class handed_tensors : public lending_job {
protected:
  std::uint64_t copies_at(const std::string& name) { return node_->rpc_sync<&copies_here>(name); }
  std::uint64_t copies_everywhere() {
    return copy_on_write::count().copies + copies_at("worker1") + copies_at("worker2");
  }
};

TEST_F(handed_tensors, are_written_at_the_receiver_and_come_back_as_the_same_memory) {
  auto t = at::arange(integers);
  const auto* const place = t.storage().data();
  const auto before = copies_everywhere();
  for (int i = 1; i <= 20; ++i) {
    t = node_->rpc_sync<&add_one>("worker1", std::move(t));
    ASSERT_EQ(t.storage().data(), place);
    EXPECT_EQ(t[7].item<std::int64_t>(), 7 + 2 * i - 1);
    t.add_(1);  // here, too, where it lies
    ASSERT_EQ(t.storage().data(), place);
  }
  EXPECT_EQ(copies_everywhere(), before);
  EXPECT_EQ(node_->debug_info().traffic.lent, 0u);
  end();
}

TEST_F(handed_tensors, leave_the_callers_own_empty) {
  auto t = at::arange(integers);
  node_->rpc_sync<&ends_of>("worker1", std::move(t));
  EXPECT_FALSE(t.defined());
  end();
}

TEST_F(handed_tensors, are_lent_while_others_refer_to_them) {
  auto t = at::arange(integers);
  const auto same = t;
  auto view = at::arange(integers);
  const auto row = view.slice(0, 0, 10);
  auto back = node_->rpc_sync<&add_one>("worker1", std::move(t));
  EXPECT_EQ(same[7].item<std::int64_t>(), 7);
  EXPECT_EQ(back[7].item<std::int64_t>(), 8);
  back = node_->rpc_sync<&add_one>("worker1", std::move(view));
  EXPECT_EQ(row[7].item<std::int64_t>(), 7);
  EXPECT_EQ(back[7].item<std::int64_t>(), 8);
  end();
}

TEST_F(handed_tensors, of_another_owner_than_libtorch_are_copied) {
  std::vector<std::int64_t> numbers(integers, 5);
  auto back =
      node_->rpc_sync<&add_one>("worker1", at::from_blob(numbers.data(), {integers}, at::kLong));
  EXPECT_EQ(back[7].item<std::int64_t>(), 6);
  EXPECT_EQ(numbers[7], 5);
  end();
}

TEST_F(handed_tensors, may_be_fresh_results) {
  const auto before = copies_everywhere();
  auto got = node_->rpc_sync<&make>("worker1", integers);
  got.add_(1);
  EXPECT_EQ(got[3].item<float>(), 2.0F);
  EXPECT_EQ(copies_everywhere(), before);
  // And go on to a third node, and back to the first.
  got = node_->rpc_sync<&double_it>("worker2", std::move(got));
  got = node_->rpc_sync<&double_it>("worker1", std::move(got));
  EXPECT_EQ(got[3].item<float>(), 8.0F);
  end();
}

TEST_F(handed_tensors, are_results_only_if_the_callee_keeps_none) {
  auto first = node_->rpc_sync<&kept_counter>("worker1", std::int64_t{1});
  first.fill_(-1);
  auto second = node_->rpc_sync<&kept_counter>("worker1", std::int64_t{1});
  EXPECT_EQ(second[0].item<std::int64_t>(), 2);
  node_->rpc_sync<&kept_counter>("worker1", std::int64_t{1});
  EXPECT_EQ(second[0].item<std::int64_t>(), 2);
  end();
}

TEST_F(handed_tensors, go_to_actors) {
  const auto before = copies_everywhere();
  const auto adder = node_->rpc_sync<&adder_here>("worker1");
  auto t = at::arange(integers);
  EXPECT_EQ(request(adder, std::move(t)).get(), 1 + integers);
  EXPECT_FALSE(t.defined());
  EXPECT_EQ(copies_everywhere(), before);
  end();
}

// All in one message, some of them twice.
TEST_F(handed_tensors, travel_in_containers) {
  const auto before = copies_everywhere();
  std::vector<at::Tensor> all{at::arange(integers), at::arange(integers), at::arange(3)};
  auto back = node_->rpc_sync<&add_one_to_each>("worker1", std::move(all));
  ASSERT_EQ(back.size(), 3u);
  for (const auto& one : back) EXPECT_EQ(one[2].item<std::int64_t>(), 3);
  EXPECT_EQ(copies_everywhere(), before);
  const auto one = at::arange(integers);
  back = node_->rpc_sync<&add_one_to_each>("worker1", std::vector<at::Tensor>{one, one});
  EXPECT_EQ(one[2].item<std::int64_t>(), 2);
  end();
}

// Without lend_tensors.
class handed_by_default : public lending_job {
protected:
  handed_by_default() : lending_job({}, false) {}
};

TEST_F(handed_by_default, is_what_nobody_else_refers_to) {
  auto moved = at::arange(integers);
  const auto* const place = moved.storage().data();
  moved = node_->rpc_sync<&add_one>("worker1", std::move(moved));
  EXPECT_EQ(moved.storage().data(), place);
  EXPECT_EQ(moved[7].item<std::int64_t>(), 8);
  const auto made = node_->rpc_sync<&make>("worker1", integers);
  EXPECT_EQ(node_->debug_info().traffic.borrowed, integers * sizeof(float));
  // Others are copied, so that old pointers do no harm.
  const auto kept = at::arange(integers);
  auto* const old = const_cast<std::int64_t*>(kept.const_data_ptr<std::int64_t>());
  node_->rpc_sync<&hold>("worker1", kept);
  EXPECT_EQ(node_->debug_info().traffic.lent, 0u);
  old[7] = -1;
  EXPECT_TRUE(node_->rpc_sync<&let_go>("worker1"));
  const auto plan = node_->transport_plan("worker1");
  EXPECT_EQ(plan.back().way, "handed over");
  end();
}

TEST_F(handed_tensors, of_a_killed_node_come_back) {
  constexpr std::size_t size = integers * 8;
  const auto in_use = [] { return transport::installed_arena()->count().in_use; };
  node_->rpc_sync<&hold>("worker1", at::arange(integers));
  EXPECT_GE(in_use(), size);
  ranks_[0]->stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_GE(in_use(), size);  // it may wake up, and write
  ranks_[0]->kill();
  EXPECT_TRUE(eventually([&] { return in_use() < size; }));
}

}  // namespace

}  // namespace troupe::test
