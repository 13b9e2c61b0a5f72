// Snapshots whose ends meet steps of their parameter.

#include <ATen/Functions.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <new>
#include <thread>
#include <troupe/optim.hpp>

#include "troupe/optim/shard/shared_memory.hpp"
#include "troupe/optim/shard/storage_lock.hpp"

namespace troupe::test {
namespace {

void add_one(at::Tensor& x) {
  const at::NoGradGuard data_only;
  const detail::storage_lock lock({x}, detail::storage_lock::mode::write);
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

// While it lives, libtorch has no memory.
class exhausted_memory final : public c10::Allocator {
public:
  exhausted_memory() { c10::SetCPUAllocator(this, priority); }
  ~exhausted_memory() override { c10::SetCPUAllocator(usual_, priority); }
  exhausted_memory(const exhausted_memory&) = delete;
  exhausted_memory& operator=(const exhausted_memory&) = delete;

  c10::DataPtr allocate(std::size_t) override { throw std::bad_alloc(); }
  void copy_data(void*, const void*, std::size_t) const override {}

private:
  static constexpr std::uint8_t priority = 100;
  c10::Allocator* const usual_ = c10::GetCPUAllocator();
};

TEST(snapshots, whose_copy_fails_leave_the_parameter_unlocked) {
  using mode = detail::storage_lock::mode;
  auto parameter = at::zeros({8});
  const auto now = snapshot(parameter);
  const auto* const before = parameter.const_data_ptr();
  for (const auto how : {mode::write, mode::write_concurrently}) {
    const exhausted_memory none;
    EXPECT_THROW(detail::storage_lock({parameter}, how), std::bad_alloc);
    EXPECT_EQ(parameter.const_data_ptr(), before);
  }
  std::promise<void> done;
  std::thread other([&] {
    add_one(parameter);
    done.set_value();
  });
  const bool free =
      done.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  ASSERT_TRUE(free) << (other.detach(), "the parameter is still locked");
  other.join();
  EXPECT_TRUE(is_all(now, 0));
  EXPECT_TRUE(is_all(parameter, 1));
}

}  // namespace
}  // namespace troupe::test
