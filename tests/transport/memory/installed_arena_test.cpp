// The arena of a process, and what forked processes see of it.
#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/COW.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/forking.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/memory/arena.hpp"

extern char** environ;

namespace troupe::transport {
namespace {

constexpr int kib = 1024;
constexpr std::size_t mib = 1024 * kib;

arena& process_arena() {
  std::string why_not;
  arena_options options;
  options.limit = 1024 * mib;
  auto* const one = install_arena(options, why_not);
  if (!one) throw std::runtime_error(why_not);
  return *one;
}

// Destroyed after main, when the thread's cache is gone.
struct late_owner {
  c10::DataPtr block;
};
late_owner until_exit;

TEST(installed_arena, holds_tensors) {
  auto& a = process_arena();
  EXPECT_EQ(&process_arena(), &a);
  EXPECT_EQ(installed_arena(), &a);
  EXPECT_EQ(c10::GetCPUAllocator(), &a);
  auto t = at::empty({1000, 1000});
  EXPECT_TRUE(a.owns(t.data_ptr()));
  t.fill_(2);
  auto copy = t.clone();
  EXPECT_TRUE(a.owns(copy.data_ptr()));
  EXPECT_EQ(copy.sum().item<float>(), 2e6f);
  t.resize_({3000, 1000});
  EXPECT_TRUE(a.owns(t.data_ptr()));
  EXPECT_EQ(t[999][999].item<float>(), 2.f);
  EXPECT_FALSE(a.owns(at::ones({4}).data_ptr()));
  until_exit.block = a.allocate(mib);
}

TEST(installed_arena, has_storages_that_can_be_copied_on_write) {
  auto& a = process_arena();
  auto t = at::full({1 << 20}, 3.f);
  ASSERT_TRUE(a.owns(t.data_ptr()));
  auto* const storage = t.storage().unsafeGetStorageImpl();
  EXPECT_TRUE(c10::impl::cow::has_simple_data_ptr(*storage));
  const auto lazy = c10::impl::cow::lazy_clone_storage(*storage);
  ASSERT_TRUE(lazy);
  EXPECT_EQ(lazy->data(), storage->data());
  t.add_(1);  // is copied, into the arena
  EXPECT_NE(lazy->data(), storage->data());
  EXPECT_TRUE(a.owns(storage->data()));
  EXPECT_EQ(static_cast<const float*>(lazy->data())[5], 3.f);
  EXPECT_EQ(t[5].item<float>(), 4.f);
}

// A forked process may use what its parent had, and changes nothing of it.
TEST(installed_arena, has_private_memory_for_small_tensors) {
  auto& a = process_arena();
  const auto before = a.count();
  std::vector<at::Tensor> many;
  for (int i = 0; i < 2000; ++i) many.push_back(at::full({40}, i));
  EXPECT_FALSE(a.owns(many[7].data_ptr()));
  EXPECT_EQ(a.count().in_use, before.in_use);
  EXPECT_GE(a.count().small_held, 2000 * 40 * sizeof(std::int64_t));
  EXPECT_EQ(0, troupe::test::in_child([&] {
              if (many[7][39].item<std::int64_t>() != 7) return 1;
              many[7].fill_(1);
              many.clear();
              return at::ones({40}).sum().item<float>() == 40 ? 0 : 2;
            }));
  EXPECT_EQ(many[7][39].item<std::int64_t>(), 7);
}

// Whatever locks the parent's threads have when it forks.
TEST(installed_arena, lets_a_forked_process_exit) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's own allocator has locks, which a forked process waits for";
#endif
  auto& a = process_arena();
  std::atomic<bool> done{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 2; ++i)
    busy.emplace_back([&] {
      while (!done) {
        std::vector<c10::DataPtr> some;
        for (int k = 0; k < 300; ++k) some.push_back(a.allocate(200));
      }
    });
  { const auto one = a.allocate(200); }  // this thread has a cache
  for (int i = 0; i < 12; ++i) {
    const auto child = fork();
    if (child == 0) std::exit(7);
    EXPECT_EQ(troupe::test::status_of(child), 7);
  }
  done = true;
  for (auto& one : busy) one.join();
}

TEST(installed_arena, recycles_by_thread) {
  auto& a = process_arena();
  void* first = nullptr;
  {
    const auto block = a.allocate(100 * kib);
    first = block.get();
  }
  const auto before = a.count();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(a.allocate(100 * kib).get(), first);
  const auto after = a.count();
  EXPECT_EQ(after.from_cache, before.from_cache + 1000);
  EXPECT_EQ(after.from_heap, before.from_heap);
  EXPECT_GT(after.cached, 0u);
}

TEST(installed_arena, takes_back_what_ended_threads_have_cached) {
  auto& a = process_arena();
  const auto before = a.count().cached;
  std::thread([&] {
    std::vector<c10::DataPtr> some;
    for (int i = 0; i < 20; ++i) some.push_back(a.allocate(200 * kib));
    some.clear();
    EXPECT_GT(a.count().cached, before);
  }).join();
  EXPECT_EQ(a.count().cached, before);
}

TEST(installed_arena, keeps_little_in_the_caches_of_threads) {
  auto& a = process_arena();
  std::thread([&] {
    const auto before = a.count();
    for (std::size_t size = 16 * kib; size <= mib; size += size / 8) {
      std::vector<c10::DataPtr> some;
      for (int i = 0; i < 40; ++i) some.push_back(a.allocate(size));
    }
    const auto after = a.count();
    EXPECT_LE(after.cached, before.cached + std::clamp(after.held / 16, mib, 8 * mib));
  }).join();
}

TEST(installed_arena, caches_nothing_for_a_size_that_comes_once) {
  auto& a = process_arena();
  { const auto backed = a.allocate(20 * mib); }
  std::thread([&] {
    const auto before = a.count();
    std::vector<c10::DataPtr> some;
    for (std::size_t size = 16 * kib; size <= mib; size *= 2) some.push_back(a.allocate(size));
    EXPECT_EQ(a.count().from_heap, before.from_heap + some.size());
    EXPECT_EQ(a.count().cached, before.cached);
    // More at a time for one that comes often.
    for (int i = 0; i < 100; ++i) some.push_back(a.allocate(100 * kib));
    EXPECT_GT(a.count().cached, before.cached);
  }).join();
}

TEST(installed_arena, empties_the_caches_of_idle_threads) {
  auto& a = process_arena();
  std::atomic<bool> done{false}, filled{false};
  std::thread idle([&] {
    { const auto block = a.allocate(300 * kib); }
    filled = true;
    while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  while (!filled) std::this_thread::yield();
  EXPECT_GT(a.count().cached, 0u);
  for (int i = 0; i < 6; ++i) a.tidy();
  EXPECT_EQ(a.count().cached, 0u);
  done = true;
  idle.join();
}

TEST(installed_arena, takes_blocks_that_thread_locals_free) {
  auto& a = process_arena();
  const auto before = a.count();
  std::thread([&] {
    // Made before the thread's cache, so destroyed after it.
    static thread_local late_owner last;
    last.block = a.allocate(64 * kib);
    static thread_local late_owner in_between;
    in_between.block = a.allocate(3 * mib);
  }).join();
  EXPECT_EQ(a.count().in_use, before.in_use);
  EXPECT_EQ(a.count().cached, before.cached);
}

TEST(installed_arena, passes_blocks_between_threads) {
  auto& a = process_arena();
  const auto before = a.count().in_use;
  std::array<std::atomic<void*>, 16> ring{};
  constexpr int passes = 20'000;
  std::thread other([&] {
    for (int i = 0; i < passes; ++i) {
      auto& slot = ring[static_cast<std::size_t>(i) % ring.size()];
      void* block = nullptr;
      while (!(block = slot.exchange(nullptr))) std::this_thread::yield();
      a.raw_deleter()(block);
    }
  });
  for (int i = 0; i < passes; ++i) {
    auto& slot = ring[static_cast<std::size_t>(i) % ring.size()];
    while (slot.load()) std::this_thread::yield();
    slot.store(a.allocate(32 * kib).release_context());
  }
  other.join();
  EXPECT_EQ(a.count().in_use, before);
}

TEST(installed_arena, is_in_profiles_of_memory) {
  struct recorder final : c10::MemoryReportingInfoBase {
    std::vector<std::int64_t> sizes;
    void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t,
                           c10::Device) override {
      sizes.push_back(size);
    }
    bool memoryProfilingEnabled() const override { return true; }
  };
  auto& a = process_arena();
  const auto seen = std::make_shared<recorder>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, seen);
    { const auto in_arena = a.allocate(100 * kib); }
    { const auto small = a.allocate(100); }
  }
  EXPECT_EQ(seen->sizes, (std::vector<std::int64_t>{100 * kib, -100 * kib, 100, -100}));
}

TEST(installed_arena, tells_a_forked_process_that_it_has_none) {
  auto& a = process_arena();
  auto t = at::ones({1 << 20});
  ASSERT_TRUE(a.owns(t.data_ptr()));
  EXPECT_EQ(0, troupe::test::in_child([&] {
              if (installed_arena() || a.count().held > 0) return 1;
              auto own = a.allocate(4 * mib);
              if (a.owns(own.get())) return 2;
              std::fill_n(static_cast<char*>(own.get()), 4 * mib, 'x');
              own.clear();
              a.raw_deleter()(t.data_ptr());  // the parent's: ignored
              a.tidy();
              std::string why_not;
              if (arena::make({}, why_not) || why_not.find("forked") == why_not.npos) return 3;
              if (install_arena({}, why_not)) return 4;
              try {
                static_cast<void>(a.read_only_descriptor());
                return 5;
              } catch (const transport_error&) {
              }
              return 0;
            }));
  EXPECT_EQ(t.sum().item<float>(), float(1 << 20));
}

TEST(installed_arena, ends_a_forked_process_that_touches_it) {
  process_arena();
  auto t = at::ones({1 << 20});
  auto* const data = t.data_ptr<float>();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  for (const bool writes : {true, false}) {
    const auto child = fork();
    if (child == 0) {
      dup2(ends[1], STDERR_FILENO);
      if (writes)
        data[100] = 5;
      else
        _exit(data[100] == 1 ? 0 : 1);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    char text[4096] = {};
    ASSERT_GT(read(ends[0], text, sizeof text - 1), 0);
    EXPECT_NE(std::string(text).find("Use exec after fork"), std::string::npos) << text;
  }
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(data[100], 1.f);
}

TEST(installed_arena, leaves_other_wrong_accesses_to_the_program) {
  process_arena();
  // A handler that the program had before it forked.
  struct sigaction mine {
  }, before{};
  mine.sa_handler = [](int) { _exit(33); };
  sigaction(SIGSEGV, &mine, &before);
  EXPECT_EQ(33, troupe::test::in_child([] {
              volatile auto* nowhere = reinterpret_cast<int*>(16);
              *nowhere = 1;
              return 0;
            }));
  EXPECT_EQ(33, troupe::test::in_child([] {
              raise(SIGSEGV);
              return 0;
            }));
  sigaction(SIGSEGV, &before, nullptr);
}

TEST(installed_arena, lets_programs_start) {
  process_arena();
  auto t = at::ones({1 << 20});
  EXPECT_EQ(std::system("true"), 0);
  pid_t child = 0;
  char name[] = "true";
  char* const arguments[] = {name, nullptr};
  ASSERT_EQ(posix_spawnp(&child, name, nullptr, nullptr, arguments, environ), 0);
  EXPECT_EQ(troupe::test::status_of(child), 0);
  child = fork();
  if (child == 0) {
    execlp("true", "true", nullptr);
    _exit(9);
  }
  EXPECT_EQ(troupe::test::status_of(child), 0);
  EXPECT_EQ(t.sum().item<float>(), float(1 << 20));
}

}  // namespace
}  // namespace troupe::transport
