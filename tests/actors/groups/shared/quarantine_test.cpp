// Memory that others may still write. Rule 5 of docs/collectives_shared.md.
#include "troupe/actors/groups/shared/quarantine.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/sum.h>
#include <c10/core/Allocator.h>
#include <gtest/gtest.h>

#include <array>

namespace troupe::groups {
namespace {

// Says when it is given back.
struct watched_memory {
  std::array<float, 6> values{1, 2, 3, 4, 5, 6};
  bool freed = false;

  at::Tensor tensor() {
    return at::from_blob(
        values.data(), {6}, [this](void*) { freed = true; }, at::kFloat);
  }
};

TEST(Quarantine, HoldsMemoryUntilItIsOverWhateverHasEnded) {
  watched_memory first, second;
  bool is_over = false;
  {
    auto a = first.tensor();
    const auto part = a.narrow(0, 2, 2);
    const std::vector<at::Tensor> written = {a.narrow(0, 0, 2), part};
    quarantine(written, [&] { return is_over; });
    EXPECT_NE(a.const_data_ptr(), first.values.data());
    EXPECT_EQ(part.const_data_ptr<float>(), a.const_data_ptr<float>() + 2);
    first.values.fill(9);
    EXPECT_FLOAT_EQ(at::sum(a).const_data_ptr<float>()[0], 21);
  }
  release_quarantined();
  EXPECT_FALSE(first.freed);
  is_over = true;
  // The next failure, of any group.
  bool second_is_over = false;
  {
    const auto b = second.tensor();
    quarantine({&b, 1}, [&] { return second_is_over; });
  }
  EXPECT_TRUE(first.freed);
  EXPECT_FALSE(second.freed);
  second_is_over = true;
  release_quarantined();
  EXPECT_TRUE(second.freed);
}

struct empty_allocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t) override { throw std::bad_alloc(); }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {}
};

TEST(Quarantine, LeavesMemoryWithItsTensorForEverWhereThereIsNoOther) {
  watched_memory first, second;
  empty_allocator none;
  bool is_over = false;
  {
    const std::vector<at::Tensor> written = {first.tensor(), second.tensor()};
    written[0].storage().unsafeGetStorageImpl()->set_allocator(&none);
    quarantine(written, [&] { return is_over; });
    EXPECT_EQ(written[0].const_data_ptr(), first.values.data());
    // It is reached all the same.
    EXPECT_NE(written[1].const_data_ptr(), second.values.data());
  }
  EXPECT_FALSE(first.freed);
  EXPECT_FALSE(second.freed);
  is_over = true;
  release_quarantined();
  EXPECT_FALSE(first.freed);
  EXPECT_TRUE(second.freed);
}

}  // namespace
}  // namespace troupe::groups
