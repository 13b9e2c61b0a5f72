// Snapshots whose ends meet steps of their parameter.

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <troupe/optim.hpp>

#include "troupe/optim/shard/storage_lock.hpp"
#include "troupe/optim/shard/shared_memory.hpp"

namespace troupe::test {
namespace {

void add_one(at::Tensor& x) {
  const at::NoGradGuard data_only;
  const detail::memory_turn turn({x}, detail::memory_turn::how::alone);
  x.add_(1);
}

bool is_all(const at::Tensor& x, double value) { return at::equal(x, at::full_like(x, value)); }

// Where two threads meet, without sleeping in between: both go on at once.
class meeting_point {
public:
  void arrive_and_wait() {
    const auto seen = round_.load();
    if (arrived_.fetch_add(1) == 1) {
      arrived_ = 0;
      round_ = seen + 1;
    }
    for (int i = 0; round_ == seen; ++i)
      if (i > 10'000) std::this_thread::yield();
  }

private:
  std::atomic<int> arrived_{0}, round_{0};
};

// libtorch's lazy clones do not survive this for long: what both count in goes too early.
TEST(snapshots, may_end_while_the_parameter_is_written) {
  auto parameter = at::zeros({8});
  at::Tensor now;
  constexpr int rounds = 5000;
  meeting_point meet;
  std::thread other([&] {
    for (int i = 0; i < rounds; ++i) {
      meet.arrive_and_wait();
      if (i % 2 == 0) {
        EXPECT_TRUE(is_all(now, i));
      }
      now.reset();
      meet.arrive_and_wait();
    }
  });
  for (int i = 0; i < rounds; ++i) {
    now = snapshot(parameter);
    meet.arrive_and_wait();
    add_one(parameter);
    meet.arrive_and_wait();
  }
  other.join();
  EXPECT_TRUE(is_all(parameter, rounds));
}

TEST(snapshots, cost_a_copy_only_if_they_live) {
  auto parameter = at::zeros({8}).requires_grad_();
  const auto* const before = parameter.const_data_ptr();
  {
    const auto now = snapshot(parameter);
    EXPECT_EQ(now.const_data_ptr(), before);
    EXPECT_TRUE(detail::has_aliases(parameter.storage()));
  }
  EXPECT_FALSE(detail::has_aliases(parameter.storage()));
  add_one(parameter);
  EXPECT_EQ(parameter.const_data_ptr(), before);
  const auto later = snapshot(parameter);
  add_one(parameter);
  EXPECT_NE(parameter.const_data_ptr(), before);
  EXPECT_EQ(later.const_data_ptr(), before);
  EXPECT_TRUE(is_all(later, 1));
  EXPECT_TRUE(is_all(parameter, 2));
}

TEST(snapshots, of_views_and_their_gradients_are_the_parameters) {
  const auto whole = at::arange(12.0).reshape({3, 4});
  auto parameter = whole.t().slice(0, 1, 3).requires_grad_();  // strides and an offset
  const auto now = snapshot(parameter);
  EXPECT_TRUE(at::equal(now, parameter));
  EXPECT_EQ(now.strides(), parameter.strides());
  EXPECT_TRUE(now.requires_grad());
  (now * now).sum().backward();
  EXPECT_TRUE(at::equal(parameter.grad(), 2 * parameter.detach()));
  const auto old = now.detach().clone();
  add_one(parameter);
  EXPECT_TRUE(at::equal(now.detach(), old));
  EXPECT_TRUE(at::equal(parameter.detach(), old + 1));
}

}  // namespace
}  // namespace troupe::test
