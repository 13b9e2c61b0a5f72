// The thread that takes every other chunk.
#include "troupe/transport/tcp/chunk_thread.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace troupe::transport::tcp {
namespace {

using namespace std::chrono_literals;

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](timeval t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

TEST(chunk_thread, does_a_job_beside_its_owner) {
  chunk_thread second;
  for (int i = 0; i < 20; ++i) {
    std::atomic<bool> here{false}, there{false};
    std::thread::id by;
    second.both(
        [&] {
          while (!there) std::this_thread::yield();  // it has begun it by itself
          here = true;
        },
        [&] {
          by = std::this_thread::get_id();
          there = true;
          while (!here) std::this_thread::yield();
        });
    EXPECT_NE(by, std::this_thread::get_id());
  }
}

// Whoever of the two does it: no job is lost, or done twice, whatever the thread is about.
TEST(chunk_thread, does_each_job_once) {
  chunk_thread second;
  std::uint64_t sum = 0, expected = 0;  // no atomic: `both` orders the accesses
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    second.both(
        [i] {
          if (i % 5'000 == 4'999) std::this_thread::sleep_for(2ms);  // it sleeps
        },
        [&sum, i] { sum += i; });
    expected += i;
    ASSERT_EQ(sum, expected);
  }
}

TEST(chunk_thread, sleeps_without_a_job) {
  chunk_thread second;
  std::this_thread::sleep_for(20ms);
  const auto before = processor_seconds();
  std::this_thread::sleep_for(200ms);
  EXPECT_LT(processor_seconds() - before, 0.02);
}

TEST(chunk_thread, ends_at_any_time) {
  for (int i = 0; i < 50; ++i) {
    chunk_thread second;
    if (i % 2 == 0) continue;
    second.both([] {}, [] {});
  }
}

// The other job refers to what the caller has, until it is done.
TEST(chunk_thread, waits_for_the_other_job_when_one_fails) {
  chunk_thread second;
  bool done = false;
  EXPECT_THROW(second.both([] { throw std::runtime_error("broken"); },
                           [&] {
                             std::this_thread::sleep_for(5ms);
                             done = true;
                           }),
               std::runtime_error);
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace troupe::transport::tcp
