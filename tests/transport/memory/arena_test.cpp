#include "troupe/transport/memory/arena.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport {
namespace {

constexpr std::size_t kib = 1024, mib = 1024 * kib;

std::unique_ptr<arena> made(arena_options options = {}) {
  std::string why_not;
  auto out = arena::make(options, why_not);
  if (!out) throw std::runtime_error(why_not);
  return out;
}

// No thread, and a limit.
arena_options by_hand(std::size_t limit) {
  arena_options out;
  out.limit = limit;
  out.housekeeping = false;
  out.ahead = 0;
  return out;
}

void fill(const c10::DataPtr& block, std::size_t n, unsigned char with) {
  std::memset(block.get(), with, n);
}

// Looked at every 127 bytes, and at the end.
bool is_full_of(const c10::DataPtr& block, std::size_t n, unsigned char of) {
  const auto* data = static_cast<const unsigned char*>(block.get());
  for (std::size_t i = 0; i < n; i += 127)
    if (data[i] != of) return false;
  return data[n - 1] == of;
}

TEST(arena, gives_aligned_blocks_of_every_size) {
  const auto a = made(by_hand(1024 * mib));
  EXPECT_EQ(a->allocate(0).get(), nullptr);
  for (const std::size_t n :
       {std::size_t{1}, 4 * kib, 16 * kib - 1, 16 * kib, 17 * kib, 64 * kib, mib - 1, mib, mib + 1,
        2 * mib, 3 * mib, 4 * mib + 1, 16 * mib, 100 * mib, 200 * mib}) {
    const auto block = a->allocate(n);
    ASSERT_NE(block.get(), nullptr);
    EXPECT_EQ(block.get(), block.get_context());
    EXPECT_EQ(block.get_deleter(), a->raw_deleter());
    EXPECT_TRUE(block.device().is_cpu());
    const auto address = reinterpret_cast<std::uintptr_t>(block.get());
    EXPECT_EQ(address % 64, 0u);
    EXPECT_EQ(a->owns(block.get()), n >= 16 * kib) << n;
    EXPECT_EQ(address % (n > mib ? 64 * kib : 64), 0u);
    EXPECT_EQ(address % (n >= 16 * mib || n % (2 * mib) == 0 ? 2 * mib : 64), 0u);
    if (a->owns(block.get())) {
      EXPECT_EQ(a->at(a->offset_of(block.get())), block.get());
      EXPECT_LE(a->offset_of(block.get()) + n, a->size());
    }
    static_cast<char*>(block.get())[0] = 1;
    static_cast<char*>(block.get())[n - 1] = 2;
  }
  EXPECT_EQ(a->count().in_use, 0u);
  EXPECT_FALSE(a->owns(a.get()));
  EXPECT_FALSE(a->owns(nullptr));
  EXPECT_FALSE(a->owns(a->at(0) + a->size()));
  EXPECT_EQ(a->count().fallbacks, 0u);
}

TEST(arena, keeps_contents_apart) {
  const auto a = made(by_hand(256 * mib));
  struct one {
    c10::DataPtr block;
    std::size_t size;
    unsigned char value;
  };
  std::vector<one> live;
  std::mt19937 random(7);
  for (int i = 0; i < 2'000; ++i) {
    if (live.size() > 40 || (!live.empty() && random() % 3 == 0)) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(is_full_of(live.back().block, live.back().size, live.back().value));
      live.pop_back();
    } else {
      const auto size = 16 * kib + random() % (random() % 10 == 0 ? 6 * mib : 300 * kib);
      const auto value = static_cast<unsigned char>(random());
      live.push_back({a->allocate(size), size, value});
      ASSERT_TRUE(a->owns(live.back().block.get()));
      fill(live.back().block, size, value);
    }
  }
  EXPECT_LE(a->count().in_use, a->count().held);
}

TEST(arena, recycles_without_new_memory) {
  const auto a = made(by_hand(1024 * mib));
  void* first = nullptr;
  for (const auto size : {std::size_t{100} * mib, 3 * mib, 64 * kib}) {
    {
      const auto block = a->allocate(size);
      first = block.get();
      fill(block, size, 1);
    }
    const auto before = a->count();
    for (int i = 0; i < 50; ++i) EXPECT_EQ(a->allocate(size).get(), first);
    EXPECT_EQ(a->count().held, before.held);
    EXPECT_EQ(a->count().backed, before.backed);
  }
  // Smaller blocks come from the memory of the large one.
  std::vector<c10::DataPtr> some;
  for (int i = 0; i < 90; ++i) some.push_back(a->allocate(mib));
  EXPECT_EQ(a->count().held, 100 * mib);
}

TEST(arena, has_no_page_faults_in_recycled_memory) {
  const auto a = made(by_hand(256 * mib));
  fill(a->allocate(64 * mib), 64 * mib, 1);
  rusage before{}, after{};
  getrusage(RUSAGE_THREAD, &before);
  for (int i = 0; i < 3; ++i) fill(a->allocate(64 * mib), 64 * mib, 2);
  getrusage(RUSAGE_THREAD, &after);
  EXPECT_LT(after.ru_minflt - before.ru_minflt, 1'000);  // 64 MiB have 16,384 small pages
}

TEST(arena, does_without_huge_pages) {
  auto options = by_hand(64 * mib);
  options.huge_pages = false;
  const auto a = made(options);
  const auto block = a->allocate(8 * mib);
  ASSERT_TRUE(a->owns(block.get()));
  std::vector<unsigned char> present(8 * mib / 4096);
  ASSERT_EQ(mincore(block.get(), 8 * mib, present.data()), 0);
  for (const auto page : present) ASSERT_NE(page & 1, 0);
  EXPECT_EQ(a->count().held, 8 * mib);
}

TEST(arena, leaves_what_is_past_the_limit_to_the_default_allocator) {
  const auto a = made(by_hand(64 * mib));
  auto first = a->allocate(40 * mib);
  EXPECT_TRUE(a->owns(first.get()));
  {
    const auto second = a->allocate(40 * mib);
    EXPECT_FALSE(a->owns(second.get()));
    EXPECT_EQ(second.get_deleter(), a->raw_deleter());
    fill(second, 40 * mib, 3);
  }
  EXPECT_EQ(a->count().fallbacks, 1u);
  EXPECT_LE(a->count().held, 64 * mib);
  EXPECT_FALSE(a->owns(a->allocate(65 * mib).get()));
  first.clear();
  EXPECT_TRUE(a->owns(a->allocate(64 * mib).get()));
  EXPECT_EQ(a->count().held, 64 * mib);
#if !defined(TROUPE_SANITIZE_address) && !defined(TROUPE_SANITIZE_thread)  // they end the process
  EXPECT_THROW(a->allocate(std::size_t{1} << 60), std::exception);
#endif
}

TEST(arena, makes_room_below_the_limit_from_what_lies_unused_in_pieces) {
  const auto a = made(by_hand(64 * mib));
  std::vector<c10::DataPtr> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(a->allocate(4 * mib));
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(a->owns(blocks[static_cast<std::size_t>(i)].get()));
  for (std::size_t i = 0; i < 16; i += 2) blocks[i].clear();
  const auto large = a->allocate(30 * mib);
  EXPECT_TRUE(a->owns(large.get()));
  EXPECT_LE(a->count().held, 64 * mib);
  EXPECT_GT(a->count().given_back, 0u);
}

TEST(arena, leaves_to_the_default_allocator_what_the_system_does_not_give) {
  const auto a = made(by_hand(64 * mib));
  auto kept = a->allocate(4 * mib);
  fill(kept, 4 * mib, 1);
  // Where other memory is mapped, backing fails as it does where memory is short.
  auto* const rest = a->at(0) + 8 * mib;
  ASSERT_NE(mmap(rest, a->size() - 8 * mib, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0),
            MAP_FAILED);
  {
    const auto block = a->allocate(6 * mib);
    EXPECT_FALSE(a->owns(block.get()));
    fill(block, 6 * mib, 2);
  }
  EXPECT_EQ(a->count().fallbacks, 1u);
  EXPECT_EQ(a->count().held, 4 * mib);
  EXPECT_TRUE(a->owns(a->allocate(4 * mib).get()));  // what failed can be tried again
  EXPECT_EQ(a->count().held, 8 * mib);
  EXPECT_TRUE(is_full_of(kept, 4 * mib, 1));
}

// The memory of the file, as the system counts it.
std::size_t memory_of(const arena& a) {
  struct stat status {};
  const auto file = a.read_only_descriptor();
  EXPECT_EQ(fstat(file.get(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

TEST(arena, gives_unused_memory_back_after_some_rounds) {
  const auto a = made(by_hand(256 * mib));
  auto kept = a->allocate(20 * mib);
  fill(kept, 20 * mib, 9);
  { const auto unused = a->allocate(100 * mib); }
  EXPECT_EQ(a->count().held, 120 * mib);
  EXPECT_EQ(memory_of(*a), 120 * mib);
  for (int i = 0; i < 4; ++i) a->tidy();
  EXPECT_EQ(a->count().held, 120 * mib);
  { const auto used_again = a->allocate(30 * mib); }
  a->tidy();
  EXPECT_EQ(a->count().held, 50 * mib);
  for (int i = 0; i < 5; ++i) a->tidy();
  EXPECT_EQ(a->count().held, 20 * mib);
  EXPECT_EQ(a->count().given_back, 100 * mib);
  EXPECT_EQ(memory_of(*a), 20 * mib);
  EXPECT_TRUE(is_full_of(kept, 20 * mib, 9));
  fill(a->allocate(100 * mib), 100 * mib, 1);
  EXPECT_EQ(memory_of(*a), 120 * mib);
}

TEST(arena, gives_back_by_itself_and_prepares_some_memory) {
  arena_options options;
  options.limit = 256 * mib;
  options.give_back_after = std::chrono::milliseconds(20);
  const auto a = made(options);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(15);
  const auto comes = [&](const auto& is) {
    while (!is() && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return is();
  };
  {
    const auto block = a->allocate(64 * mib);
    fill(block, 64 * mib, 1);
    // What was prepared for the next block, which nobody asks for.
    EXPECT_TRUE(comes([&] { return a->count().given_back >= 2 * mib; }));
  }
  EXPECT_TRUE(comes([&] { return a->count().held == 0; }));
  EXPECT_GE(a->count().given_back, 66 * mib);
  const auto one = a->allocate(16 * kib);
  const auto two = a->allocate(2 * mib);
  EXPECT_GE(a->count().held, 4 * mib);
}

// Blocks of all sizes, made by one thread and freed by another, while memory comes and goes.
void use_from_many_threads(arena& a) {
  struct header {
    unsigned seed;
    unsigned number;
    std::size_t size;
    void write(void* block) const {
      std::memcpy(block, this, sizeof *this);
      std::memcpy(static_cast<char*>(block) + size - sizeof number, &number, sizeof number);
    }
    bool is_right(const void* block) const {
      unsigned at_end = 0;
      std::memcpy(&at_end, static_cast<const char*>(block) + size - sizeof number, sizeof number);
      return at_end == number;
    }
  };
  std::array<std::atomic<void*>, 64> passed{};
  std::atomic<int> wrong{0};
  const auto check_and_free = [&](void* block) {
    header found{};
    std::memcpy(&found, block, sizeof found);
    if (!found.is_right(block)) ++wrong;
    a.raw_deleter()(block);
  };
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (unsigned i = 0; i < 3'000; ++i) {
      const auto size = 16 * kib + random() % (random() % 50 == 0 ? 4 * mib : 64 * kib);
      auto block = a.allocate(size);
      header{seed, seed * 10'000 + i, size}.write(block.get());
      void* mine = block.release_context();
      if (void* other = passed[random() % passed.size()].exchange(mine)) check_and_free(other);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 1; t <= 4; ++t) threads.emplace_back(work, t);
  for (auto& t : threads) t.join();
  for (auto& one : passed)
    if (void* left = one.load()) check_and_free(left);
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(a.count().in_use, 0u);
}

TEST(arena, is_used_by_many_threads) {
  arena_options options;
  options.limit = 512 * mib;
  options.give_back_after = std::chrono::milliseconds(4);
  const auto a = made(options);
  use_from_many_threads(*a);
  EXPECT_EQ(a->count().fallbacks, 0u);
}

TEST(arena, is_used_by_many_threads_at_its_limit) {
  arena_options options;
  options.limit = 8 * mib;
  options.give_back_after = std::chrono::milliseconds(4);
  const auto a = made(options);
  use_from_many_threads(*a);
  EXPECT_GT(a->count().fallbacks, 0u);
  EXPECT_LE(a->count().held, 8 * mib);
}

// How often the threads for housekeeping have gone to sleep.
std::uint64_t sleeps_of_housekeeping() {
  std::uint64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name, word;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != "troupe-memory") continue;
    std::ifstream status(task.path() / "status");
    while (status >> word)
      if (word == "voluntary_ctxt_switches:") {
        std::uint64_t number = 0;
        status >> number;
        sum += number;
      }
  }
  return sum;
}

TEST(arena, does_not_wake_while_nothing_is_unused) {
  arena_options options;
  options.limit = 64 * mib;
  options.give_back_after = std::chrono::milliseconds(8);
  const auto a = made(options);
  const auto kept = a->allocate(4 * mib);
  { const auto unused = a->allocate(10 * mib); }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(15);
  while (a->count().held > 4 * mib && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(a->count().held, 4 * mib);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto before = sleeps_of_housekeeping();
  EXPECT_GT(before, 0u);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // 50 rounds
  EXPECT_LE(sleeps_of_housekeeping(), before + 2);              // of other arenas
}

TEST(arena, is_read_only_for_others) {
  const auto a = made(by_hand(64 * mib));
  auto block = a->allocate(mib);
  fill(block, mib, 42);
  const auto file = a->read_only_descriptor();
  EXPECT_EQ(mmap(nullptr, a->size(), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0),
            MAP_FAILED);
  void* view = mmap(nullptr, a->size(), PROT_READ, MAP_SHARED, file.get(), 0);
  ASSERT_NE(view, MAP_FAILED);
  EXPECT_EQ(mprotect(view, a->size(), PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(
      std::memcmp(static_cast<std::byte*>(view) + a->offset_of(block.get()), block.get(), mib), 0);
  static_cast<char*>(block.get())[5] = 7;
  EXPECT_EQ(static_cast<char*>(view)[a->offset_of(block.get()) + 5], 7);
  munmap(view, a->size());
  EXPECT_NE(fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(write(file.get(), "x", 1), -1);
}

TEST(arena, cannot_be_truncated) {
  const auto a = made(by_hand(64 * mib));
  const auto file = a->read_only_descriptor();
  EXPECT_EQ(fcntl(file.get(), F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_SEAL | F_SEAL_WRITE),
            F_SEAL_SHRINK | F_SEAL_SEAL);
  struct stat status {};
  ASSERT_EQ(fstat(file.get(), &status), 0);
  EXPECT_EQ(static_cast<std::size_t>(status.st_size), a->size());
  EXPECT_EQ(status.st_mode & 0777u, 0400u);
  // Only a privileged process can open it for writing, and even that one cannot cut it.
  const auto path = "/proc/self/fd/" + std::to_string(file.get());
  const unique_fd again(open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(!again || ftruncate(again.get(), 4096) == -1);
}

TEST(arena, has_an_id_of_its_own) {
  const auto a = made(by_hand(64 * mib)), b = made(by_hand(64 * mib));
  EXPECT_NE(a->id(), b->id());
  auto of_a = a->allocate(mib), of_b = b->allocate(mib);
  EXPECT_FALSE(a->owns(of_b.get()));
  a->raw_deleter()(of_b.release_context());  // the same function for all
  EXPECT_EQ(b->count().in_use, 0u);
  EXPECT_GT(a->count().in_use, 0u);
}

TEST(arena, can_end_before_its_blocks) {
  auto a = made(by_hand(64 * mib));
  auto block = a->allocate(mib);
  a.reset();
  fill(block, mib, 1);
  block.clear();
}

class lowered {
public:
  lowered(__rlimit_resource which, rlim_t to) : which_(which) {
    getrlimit(which, &before_);
    rlimit less{to, before_.rlim_max};
    setrlimit(which, &less);
  }
  ~lowered() { setrlimit(which_, &before_); }

private:
  __rlimit_resource which_;
  rlimit before_{};
};

TEST(arena, says_why_there_is_none) {
  std::string why_not;
  {
    const lowered no_descriptors(RLIMIT_NOFILE, 0);
    EXPECT_FALSE(arena::make(by_hand(64 * mib), why_not));
  }
  EXPECT_NE(why_not.find("memfd_create"), std::string::npos) << why_not;
  EXPECT_NE(why_not.find("ulimit -n"), std::string::npos) << why_not;
  {
    const lowered small_files(RLIMIT_FSIZE, 1000);
    EXPECT_FALSE(arena::make(by_hand(64 * mib), why_not));
  }
  EXPECT_NE(why_not.find("ulimit -f"), std::string::npos) << why_not;
}

TEST(arena, is_smaller_where_files_may_not_be_large) {
  const lowered smaller_files(RLIMIT_FSIZE, 100 * mib);
  const auto a = made(by_hand(1024 * mib));
  EXPECT_EQ(a->size(), 100 * mib);
  EXPECT_TRUE(a->owns(a->allocate(90 * mib).get()));
  EXPECT_FALSE(a->owns(a->allocate(101 * mib).get()));
}

}  // namespace
}  // namespace troupe::transport
