// Tensors that travel without a copy between nodes in processes of their own.

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <algorithm>

#include "tests/actors/node/lending_job.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"
#include "troupe/transport/memory/arena.hpp"

namespace troupe::test {

namespace {

class lent_tensors : public lending_job {
protected:
  static std::size_t in_use() { return transport::installed_arena()->count().in_use; }

  // The two others have to meet, too, before one passes on to the other.
  void wait_until_passed_on() {
    EXPECT_TRUE(eventually([&] {
      node_->rpc_sync<&hold_at>("worker1", std::string("worker2"), at::full({1 << 18}, 1.0F));
      const bool still_lent = node_->debug_info().traffic.lent > 0;
      EXPECT_TRUE(node_->rpc_sync<&let_go>("worker2"));
      return still_lent;
    }));
    EXPECT_TRUE(eventually([&] { return node_->debug_info().traffic.lent == 0; }));
  }
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

// The end of a loan travels with the answer, or before it; unless another message of the callee's
// node, such as one of its membership, takes it along at that moment and gets no processor then.
constexpr int most_ends_elsewhere = 1;

TEST_F(lent_tensors, are_written_in_place_once_they_are_back) {
  auto t = at::arange(1 << 20);
  const auto copies = copy_on_write::count().copies;
  for (int i = 0; i < 20; ++i) {
    const auto* const place = t.storage().data();
    EXPECT_EQ(node_->rpc_sync<&give_back>("worker1", t).storage().data(), place);
    t.add_(1);
    EXPECT_EQ(node_->rpc_sync<&ends_of>("worker1", t), 2 * i + (1 << 20) + 1);
    t.add_(0);
  }
  EXPECT_LE(copy_on_write::count().copies - copies, most_ends_elsewhere);
  end();
}

TEST_F(lent_tensors, are_written_in_place_once_an_object_has_read_them) {
  EXPECT_LE(node_->rpc_sync<&copies_beside_an_object>("worker0", 1, 20), most_ends_elsewhere);
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
    EXPECT_TRUE(std::ranges::any_of(written.forced_by, [](const troupe::forced_copies_by& one) {
      return one.writer.starts_with("add_");
    }));
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

TEST_F(lent_tensors, reach_a_third_node_without_a_copy) {
  constexpr std::size_t size = 4 << 20;
  wait_until_passed_on();
  const auto before = node_->rpc_sync<&loans_and_in_use>("worker1");
  auto t = at::full({1 << 20}, 1.0F);
  node_->rpc_sync<&hold_at>("worker1", std::string("worker2"), t);
  const auto between = node_->rpc_sync<&loans_and_in_use>("worker1");
  EXPECT_EQ(between.first - before.first, 2 * size);  // borrowed, and lent
  EXPECT_EQ(between.second, before.second);
  EXPECT_EQ(node_->debug_info().traffic.lent, size);
  t.fill_(2);
  EXPECT_TRUE(node_->rpc_sync<&let_go>("worker2"));
  EXPECT_TRUE(eventually([&] { return node_->debug_info().traffic.lent == 0; }));
  end();
}

TEST_F(lent_tensors, that_were_passed_on_outlast_the_node_between) {
  constexpr std::size_t size = 4 << 20;
  wait_until_passed_on();
  node_->rpc_sync<&hold_at>("worker1", std::string("worker2"), at::full({1 << 20}, 1.0F));
  ranks_[0]->kill();
  EXPECT_THROW(node_->rpc_sync<&let_go>("worker1"), peer_lost);
  for (int i = 0; i < 50; ++i) {
    const auto other = at::full({1 << 20}, 7.0F);  // lies where that one lay, if it could
    EXPECT_GE(in_use(), 2 * size);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(node_->rpc_sync<&let_go>("worker2"));
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

TEST_F(lent_tensors, go_as_the_plan_says) {
  EXPECT_THROW(node_->transport_plan("worker0"), invalid_argument);
  const auto plan = node_->transport_plan("worker1");
  ASSERT_EQ(plan.size(), 6u);
  EXPECT_EQ(plan[0].below, 16u << 10);
  EXPECT_THAT(plan[0].way, testing::HasSubstr("sent by ucx"));
  EXPECT_EQ(plan[1].way, "lent where it lies");
  EXPECT_EQ(plan[1].from, 16u << 10);
  EXPECT_EQ(plan[2].way, "handed over");
  EXPECT_EQ(plan[3].way, "passed on");
  EXPECT_EQ(plan[4].below, plan[5].from);
  EXPECT_EQ(plan[5].way, "copied once, then handed over");
  const auto all_lent = [&] { return node_->debug_info().traffic.lent; };
  const auto before = all_lent();
  for (const auto& [size, lent] : {std::pair<std::size_t, std::size_t>{plan[1].from - 16, 0},
                                   {plan[1].from, plan[1].from},
                                   {plan[5].from, plan[5].from}}) {
    node_->rpc_sync<&hold>("worker1", at::full({static_cast<std::int64_t>(size / 4)}, 1.0F));
    EXPECT_EQ(all_lent() - before, lent) << size;
    EXPECT_TRUE(node_->rpc_sync<&let_go>("worker1"));
  }
  end();
}

class strictly_lent_tensors : public lending_job {
protected:
  strictly_lent_tensors() : lending_job(strict()) {}
  static rpc_options strict() {
    rpc_options out;
    out.lend_strictly = true;
    out.lend_from = 1 << 20;
    return out;
  }
};

TEST_F(strictly_lent_tensors, are_refused_where_they_would_be_copied) {
  const auto t = at::full({1 << 19}, 1.0F);
  EXPECT_TRUE(node_->rpc_sync<&give_back>("worker1", t).equal(t));
  try {
    node_->rpc_sync<&hold>("worker1", t.slice(0, 0, 1 << 18));
    ADD_FAILURE() << "a part of a storage was copied";
  } catch (const transport_error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("1048576 bytes for rank 1"));
    EXPECT_THAT(e.what(), testing::HasSubstr("a part of its storage"));
    EXPECT_THAT(e.what(), testing::HasSubstr("lend_strictly"));
  }
  std::vector<float> own(1 << 18, 1.0F);
  EXPECT_THROW(node_->rpc_sync<&hold>("worker1", at::from_blob(own.data(), {1 << 18})),
               transport_error);
  // Large arguments that are no tensors go as before.
  EXPECT_EQ(node_->rpc_sync<&length_of>("worker1", std::string(3 << 20, 'x')), 3u << 20);
  EXPECT_EQ(node_->transport_plan("worker1")[4].way, "refused");
  // Smaller ones may be sent, and nothing is lent that was refused.
  node_->rpc_sync<&hold>("worker1", t.slice(0, 0, 1 << 17));
  EXPECT_EQ(node_->debug_info().traffic.lent, 0u);
  EXPECT_TRUE(node_->rpc_sync<&let_go>("worker1"));
  end();
}

TEST_F(lent_tensors, are_read_in_part_where_they_lie) {
  const auto there = node_->rpc_sync<&offer_count>("worker1", std::int64_t{1} << 20);
  const auto whole = there.to_here();
  // The rows are copied here, out of the owner's memory: nothing is lent afterwards.
  const auto rows = there.read(slice{100, 200});
  EXPECT_TRUE(rows.equal(whole.slice(0, 100, 200)));
  EXPECT_EQ(rows.storage().nbytes(), 100 * sizeof(std::int64_t));
  EXPECT_TRUE(there.read().equal(whole));
  auto here = at::empty({1 << 19}, at::kLong);
  EXPECT_EQ(there.read_into(here, slice{0, 1 << 20, 2}), 0u);
  EXPECT_TRUE(here.equal(whole.slice(0, 0, 1 << 20, 2)));
  there.write_from(here.neg(), slice{0, 1 << 19});
  EXPECT_TRUE(there.read(slice{0, 1 << 19}).equal(here.neg()));
  EXPECT_TRUE(there.read(slice{1 << 19}).equal(whole.slice(0, 1 << 19)));
  end();
}

}  // namespace

}  // namespace troupe::test
