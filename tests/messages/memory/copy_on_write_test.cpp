#include "troupe/messages/memory/copy_on_write.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/COW.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <thread>
#include <vector>

namespace troupe::copy_on_write {
namespace {

c10::StorageImpl& storage_of(const at::Tensor& t) { return *t.storage().unsafeGetStorageImpl(); }

const void* place_of(const at::Tensor& t) { return storage_of(t).data(); }

// Memory that counts its ends.
struct borrowed_floats {
  explicit borrowed_floats(std::size_t count) : values(count, 1.0F) {}
  std::vector<float> values;
  std::shared_ptr<int> alive = std::make_shared<int>(0);

  at::Tensor tensor() {
    std::shared_ptr<std::byte> owner(reinterpret_cast<std::byte*>(values.data()),
                                     [held = alive](std::byte*) {});
    auto out = at::empty({0});
    const auto bytes = values.size() * sizeof(float);
    out.set_(c10::Storage(c10::make_intrusive<c10::StorageImpl>(
                 c10::StorageImpl::use_byte_size_t(), c10::SymInt(static_cast<std::int64_t>(bytes)),
                 read_only(std::move(owner)), c10::GetCPUAllocator(), true)),
             0, {static_cast<std::int64_t>(values.size())}, {1});
    return out;
  }
  bool in_use() const { return alive.use_count() > 1; }
};

TEST(copy_on_write, is_used_by_libtorch) { EXPECT_TRUE(is_safe()); }

TEST(copy_on_write, frozen_bytes_stay_as_they_are_and_copy_nothing) {
  auto t = at::arange(1000);
  const auto* const before = place_of(t);
  auto frozen = freeze(storage_of(t));
  ASSERT_TRUE(frozen);
  EXPECT_EQ(frozen->data(), before);
  EXPECT_EQ(place_of(t), before);
  const auto copies = count();
  t.add_(1);
  EXPECT_NE(place_of(t), before);
  EXPECT_EQ(count().copies, copies.copies + 1);
  EXPECT_EQ(count().bytes, copies.bytes + 8000);
  EXPECT_EQ(static_cast<const std::int64_t*>(frozen->data())[999], 999);
  EXPECT_EQ(t[999].item<std::int64_t>(), 1000);
}

TEST(copy_on_write, is_counted_by_who_has_written) {
  const auto written_by = [](std::string_view name) {
    for (auto& one : writers())
      if (one.name == name) return one;
    return writer{};
  };
  constexpr std::size_t size = 1000 * sizeof(std::int64_t);
  const auto by_operator = written_by("div__Tensor_mode");
  const auto by_pointer = written_by("a pointer");
  for (int i = 0; i < 3; ++i) {
    auto t = at::arange(1000);
    const auto frozen = freeze(storage_of(t));
    t.div_(at::full({}, 2), "floor");
  }
  auto t = at::arange(1000);
  const auto frozen = freeze(storage_of(t));
  t.mutable_data_ptr();
  EXPECT_EQ(written_by("div__Tensor_mode").copies, by_operator.copies + 3);
  EXPECT_EQ(written_by("div__Tensor_mode").bytes, by_operator.bytes + 3 * size);
  EXPECT_EQ(written_by("a pointer").copies, by_pointer.copies + 1);
  std::uint64_t copies = 0;
  for (const auto& one : writers()) copies += one.copies;
  EXPECT_LE(copies, count().copies);
}

TEST(copy_on_write, a_writer_keeps_its_memory_once_nothing_is_frozen) {
  auto t = at::arange(1000);
  const auto* const before = place_of(t);
  freeze(storage_of(t)).reset();
  freeze(storage_of(t)).reset();
  const auto copies = count().copies;
  t.add_(1);
  EXPECT_EQ(place_of(t), before);
  EXPECT_EQ(count().copies, copies);
  EXPECT_FALSE(c10::impl::cow::is_cow_data_ptr(t.storage().data_ptr()));
}

c10::intrusive_ptr<c10::StorageImpl> given_back;

TEST(copy_on_write, a_writer_looks_for_what_was_given_back) {
  auto t = at::zeros({10});
  const auto* const before = place_of(t);
  given_back = freeze(storage_of(t));
  look_before_copies([] { given_back.reset(); });
  const auto copies = count();
  t.add_(1);
  look_before_copies(nullptr);
  EXPECT_EQ(place_of(t), before);
  EXPECT_EQ(count().copies, copies.copies);
  EXPECT_FLOAT_EQ(t[9].item<float>(), 1.0F);
}

TEST(copy_on_write, views_of_a_frozen_storage_stay_together) {
  auto t = at::arange(1000);
  auto view = t.slice(0, 10, 20);
  const auto frozen = freeze(storage_of(t));
  view.fill_(-1);
  EXPECT_EQ(t[15].item<std::int64_t>(), -1);
  EXPECT_EQ(static_cast<const std::int64_t*>(frozen->data())[15], 15);
}

TEST(copy_on_write, foreign_memory_cannot_be_frozen) {
  std::vector<float> values(100);
  auto t = at::from_blob(values.data(), {100});
  EXPECT_FALSE(freeze(storage_of(t)));
  t.add_(1);
  EXPECT_EQ(values[0], 1.0F);
}

TEST(copy_on_write, read_only_memory_is_copied_by_its_first_writer_and_let_go) {
  borrowed_floats lent(1000);
  auto t = lent.tensor();
  EXPECT_EQ(place_of(t), lent.values.data());
  EXPECT_EQ(t.sum().item<float>(), 1000);
  EXPECT_EQ(place_of(t), lent.values.data());
  EXPECT_TRUE(lent.in_use());
  t.mul_(2);
  EXPECT_FALSE(lent.in_use());
  EXPECT_EQ(t.sum().item<float>(), 2000);
  EXPECT_EQ(lent.values[0], 1.0F);
}

TEST(copy_on_write, read_only_memory_is_let_go_with_its_last_tensor) {
  borrowed_floats lent(1000);
  {
    auto t = lent.tensor();
    auto frozen = freeze(storage_of(t));
    ASSERT_TRUE(frozen);
    t = at::Tensor();
    EXPECT_TRUE(lent.in_use());
    EXPECT_EQ(static_cast<const float*>(frozen->data())[999], 1.0F);
    // The last reference: memory that is only read is copied all the same.
    static_cast<float*>(frozen->mutable_data())[0] = 5;
    EXPECT_FALSE(lent.in_use());
  }
  EXPECT_EQ(lent.values[0], 1.0F);
}

TEST(copy_on_write, a_resized_tensor_lets_go) {
  borrowed_floats lent(1000);
  auto t = lent.tensor();
  t.resize_({2000});
  EXPECT_FALSE(lent.in_use());
  EXPECT_EQ(t[999].item<float>(), 1.0F);
}

// As torch::load makes them.
TEST(copy_on_write, a_storage_without_an_allocator_is_copied_by_that_of_its_device) {
  auto memory = c10::GetCPUAllocator()->allocate(400);
  auto t = at::empty({0});
  t.set_(c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                            c10::SymInt(400), std::move(memory),
                                                            nullptr, false)),
         0, {100}, {1});
  t.fill_(3);
  const auto frozen = freeze(storage_of(t));
  ASSERT_TRUE(frozen);
  t.add_(1);
  EXPECT_EQ(t.sum().item<float>(), 400);
  EXPECT_EQ(static_cast<const float*>(frozen->data())[99], 3);
}

// An allocator that has no memory when it is told so.
struct poor_allocator final : c10::Allocator {
  bool poor = false;
  c10::DataPtr allocate(std::size_t n) override {
    if (poor) throw std::bad_alloc();
    return c10::GetDefaultCPUAllocator()->allocate(n);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return c10::GetDefaultCPUAllocator()->raw_deleter();
  }
  void copy_data(void* to, const void* from, std::size_t n) const override {
    default_copy_data(to, from, n);
  }
};

TEST(copy_on_write, a_copy_for_which_there_is_no_memory_changes_nothing) {
  poor_allocator allocator;
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                       c10::SymInt(400), &allocator, false);
  std::memset(storage->mutable_data(), 7, 400);
  auto frozen = freeze(*storage);
  const auto* const place = storage->data();
  allocator.poor = true;
  EXPECT_THROW(storage->mutable_data(), std::bad_alloc);
  EXPECT_EQ(storage->data(), place);
  allocator.poor = false;
  static_cast<char*>(storage->mutable_data())[0] = 1;
  EXPECT_NE(storage->data(), place);
  EXPECT_EQ(static_cast<const char*>(frozen->data())[0], 7);
  storage.reset();
  EXPECT_EQ(static_cast<const char*>(frozen->data())[399], 7);
}

// While one writer copies, others are not held up: neither those that freeze the same storage, nor
// those of other storages that share its lock.
TEST(copy_on_write, a_copy_holds_nobody_up) {
  struct slow_allocator final : c10::Allocator {
    std::atomic<bool> began{false}, go_on{false};
    c10::DataPtr allocate(std::size_t n) override {
      return c10::GetDefaultCPUAllocator()->allocate(n);
    }
    c10::DeleterFnPtr raw_deleter() const override {
      return c10::GetDefaultCPUAllocator()->raw_deleter();
    }
    void copy_data(void* to, const void* from, std::size_t n) const override {
      auto* const self = const_cast<slow_allocator*>(this);
      self->began = true;
      while (!go_on) std::this_thread::yield();
      default_copy_data(to, from, n);
    }
  } slow;
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                       c10::SymInt(400), &slow, false);
  auto frozen = freeze(*storage);
  std::jthread writer([&] { storage->mutable_data(); });
  while (!slow.began) std::this_thread::yield();
  std::vector<at::Tensor> others;
  for (int i = 0; i < 1000; ++i) {  // some of them with the same lock
    others.push_back(at::zeros({4}));
    EXPECT_TRUE(freeze(storage_of(others.back())));
  }
  EXPECT_TRUE(freeze(*storage));
  frozen.reset();
  slow.go_on = true;
}

// With libtorch's own functions threads here copy one storage at once, or lock a mutex that is
// gone.
TEST(copy_on_write, writers_of_one_tensor_copy_it_once) {
  for (int round = 0; round < 500; ++round) {
    auto t = at::zeros({4096});
    const auto frozen = freeze(storage_of(t));
    const auto copies = count().copies;
    std::barrier start(4);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        t.slice(0, i * 1024, (i + 1) * 1024).fill_(i + 1);
      });
    threads.clear();
    ASSERT_EQ(count().copies, copies + 1);
    ASSERT_EQ(t.sum().item<float>(), 1024 * 10);
    ASSERT_EQ(static_cast<const float*>(frozen->data())[4095], 0);
  }
}

TEST(copy_on_write, threads_freeze_and_let_go_of_one_tensor) {
  borrowed_floats lent(4096);
  auto own = at::full({4096}, 1.0F);
  auto foreign = lent.tensor();
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned seed = 0; seed < 4; ++seed)
      threads.emplace_back([&, seed] {
        std::mt19937 random(seed);
        std::vector<c10::intrusive_ptr<c10::StorageImpl>> held(8);
        for (int i = 0; i < 20'000; ++i) {
          auto& place = held[random() % held.size()];
          place = freeze(storage_of(random() % 2 ? own : foreign));
          if (static_cast<const float*>(place->data())[random() % 4096] != 1.0F) ++wrong;
          // A writer of its own copy: what others have stays.
          if (random() % 64 == 0) static_cast<float*>(place->mutable_data())[0] = 7.0F;
          if (random() % 2) place.reset();
          if (place && random() % 64 == 0) place.reset();
          for (auto& one : held)
            if (one && static_cast<const float*>(one->data())[0] == 7.0F) one.reset();
        }
      });
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(own.sum().item<float>(), 4096);
  foreign = at::Tensor();
  EXPECT_FALSE(lent.in_use());
}

}  // namespace
}  // namespace troupe::copy_on_write
