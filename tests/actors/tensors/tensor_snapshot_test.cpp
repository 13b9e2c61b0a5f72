// Tensors as they were, and versions of those that are updated in place.
#include "troupe/actors/tensors/snapshot.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"

namespace troupe::test {

namespace {

using detail::read_version;
using detail::snapshot_of;

TEST(snapshot, is_the_same_memory_until_a_write) {
  auto live = at::arange(1000).reshape({10, 100}).set_requires_grad(false);
  const auto kept = snapshot_of(live.t());
  EXPECT_EQ(kept.const_data_ptr(), live.const_data_ptr());
  EXPECT_EQ(kept.sizes(), live.t().sizes());
  live.add_(1);
  EXPECT_EQ(kept[3][1].item<std::int64_t>(), 103);
  EXPECT_EQ(live[1][3].item<std::int64_t>(), 104);
}

TEST(snapshot, has_no_gradients) {
  const auto live = at::ones({4}).set_requires_grad(true);
  EXPECT_FALSE(snapshot_of(live).requires_grad());
  EXPECT_FALSE(snapshot_of(live.mul(2)).requires_grad());
}

TEST(snapshot, of_foreign_memory_is_a_copy) {
  std::vector<float> own(100, 1.0F);
  auto live = at::from_blob(own.data(), {100});
  const auto kept = snapshot_of(live);
  live.fill_(2);
  EXPECT_EQ(own[0], 2.0F);
  EXPECT_TRUE(kept.equal(at::ones({100})));
}

TEST(snapshot, of_other_layouts_is_a_copy) {
  const auto kept = snapshot_of(at::ones({3, 3}).to_sparse());
  EXPECT_TRUE(kept.is_sparse());
  EXPECT_FALSE(snapshot_of(at::Tensor()).defined());
}

TEST(updated_tensor, is_read_as_it_was_before) {
  auto live = at::full({1000}, 0.0F);
  EXPECT_EQ(read_version(live).version, 0u);
  for (std::uint64_t version = 0; version < 5; ++version) {
    detail::begin_update(live);
    live.add_(1);
    const auto seen = read_version(live.slice(0, 10, 20));
    EXPECT_EQ(seen.version, version);
    EXPECT_TRUE(seen.tensor.equal(at::full({10}, static_cast<float>(version))));
    EXPECT_EQ(detail::commit(live), version + 1);
    EXPECT_TRUE(read_version(live).tensor.equal(at::full({1000}, static_cast<float>(version + 1))));
  }
}

TEST(updated_tensor, is_not_copied_if_nobody_reads) {
  auto live = at::full({1000}, 0.0F);
  (void)read_version(live);
  const auto copies = copy_on_write::count().copies;
  live.add_(1);
  EXPECT_EQ(copy_on_write::count().copies, copies);
}

TEST(updated_tensor, must_be_begun_and_committed_in_turn) {
  const auto live = at::ones({10});
  EXPECT_THROW(detail::commit(live), invalid_argument);
  detail::begin_update(live);
  EXPECT_THROW(detail::begin_update(live), invalid_argument);
  EXPECT_THROW(detail::begin_update(live.slice(0, 2, 4)), invalid_argument);
  EXPECT_EQ(detail::commit(live.slice(0, 2, 4)), 1u);
  EXPECT_THROW(detail::begin_update(at::Tensor()), invalid_argument);
  EXPECT_THROW(detail::begin_update(at::ones({3, 3}).to_sparse()), invalid_argument);
}

TEST(updated_tensor, is_not_read_beyond_what_it_was) {
  const auto live = at::ones({10});
  detail::begin_update(live);
  live.resize_({100'000});
  EXPECT_THROW(read_version(live), invalid_argument);
  detail::commit(live);
  EXPECT_EQ(read_version(live).tensor.numel(), 100'000);
}

TEST(updated_tensor, that_cannot_be_shared_is_copied_in_part) {
  std::vector<float> own(1000, 1.0F);
  const auto live = at::from_blob(own.data(), {1000});
  const auto part = read_version(live, {{10, 20}});
  EXPECT_FALSE(part.whole);
  EXPECT_EQ(part.tensor.storage().nbytes(), 10 * sizeof(float));
}

TEST(updated_tensor, may_end_during_an_update) {
  for (int i = 0; i < 1000; ++i) {
    const auto live = at::ones({10});
    EXPECT_EQ(read_version(live).version, 0u) << "the version of another one";
    detail::begin_update(live);
  }
}

// Readers on other threads never see a mixture of two versions.
TEST(updated_tensor, is_read_whole_by_other_threads) {
  const auto live = at::full({10'000}, 0.0F);
  std::atomic<bool> done{false};
  std::atomic<int> reads{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i)
    readers.emplace_back([&] {
      while (!done) {
        const auto seen = read_version(live);
        const auto wanted = at::full({10'000}, static_cast<float>(seen.version));
        if (!seen.tensor.equal(wanted)) ADD_FAILURE() << "a mixture at version " << seen.version;
        ++reads;
      }
    });
  // Between `commit` and the next `begin_update` nothing is written.
  for (int i = 0; i < 300 || reads < 50; ++i) {
    detail::begin_update(live);
    auto written = live;
    written.add_(1);
    detail::commit(live);
  }
  done = true;
  for (auto& one : readers) one.join();
}

}  // namespace

}  // namespace troupe::test
