// Messages that wait for devices: their order, and what becomes of those whose device fails.

#include "troupe/actors/messaging/late_sends.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "troupe/actors/cluster/peer_table.hpp"

namespace troupe::test {
namespace {

// Bytes that are there when the test says so.
struct promised_bytes final : pending_bytes {
  explicit promised_bytes(std::shared_ptr<std::atomic<int>> state) : state_(std::move(state)) {}
  bool there() override {
    if (*state_ < 0) throw encode_error("the device has failed");
    return *state_ > 0;
  }
  std::shared_ptr<std::atomic<int>> state_;
};

class late_messages : public testing::Test {
protected:
  using promise = std::shared_ptr<std::atomic<int>>;  // 0: not yet, 1: there, -1: never

  promise none_yet() { return promises_.emplace_back(std::make_shared<std::atomic<int>>(0)); }
  // Whatever has failed: nothing is left when the queue ends.
  void TearDown() override {
    for (const auto& one : promises_) *one = 1;
  }

  struct noted final : late_sends::message {
    noted(late_messages& test, const late_sends::lane& in, std::unique_ptr<pending_bytes> bytes,
          std::string name)
        : message(in, std::move(bytes)), test_(test), name_(std::move(name)) {}
    void send() noexcept override { test_.note(name_); }
    void fail(const fault& why) noexcept override { test_.note(name_ + ": " + why.text); }
    late_messages& test_;
    std::string name_;
  };

  void add(const std::string& name, const late_sends::lane& in, const promise& when) {
    ASSERT_TRUE(queue_.start());
    queue_.add(std::make_unique<noted>(
        *this, in, when ? std::make_unique<promised_bytes>(when) : nullptr, name));
  }

  void note(const std::string& what) {
    const std::lock_guard guard(mutex_);
    sent_.push_back(what);
  }

  std::vector<std::string> sent() {
    const std::lock_guard guard(mutex_);
    return sent_;
  }

  bool comes(std::size_t count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (sent().size() < count && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return sent().size() == count;
  }

  std::vector<promise> promises_;
  const peer a_{worker_info{"a", 0}, 1, {}}, b_{worker_info{"b", 1}, 2, {}};
  std::mutex mutex_;
  std::vector<std::string> sent_;
  late_sends queue_;  // its thread ends first
};

TEST_F(late_messages, of_one_lane_leave_in_order) {
  const auto first = none_yet(), second = none_yet();
  add("first", {&a_, 7}, first);
  add("second", {&a_, 7}, second);
  add("third", {&a_, 7}, nullptr);
  EXPECT_TRUE(queue_.any_in({&a_, 7}));
  *second = 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(sent().empty());
  *first = 1;
  ASSERT_TRUE(comes(3));
  EXPECT_EQ(sent(), (std::vector<std::string>{"first", "second", "third"}));
  queue_.wait_for({&a_, 7});
  EXPECT_FALSE(queue_.any_in({&a_, 7}));
}

TEST_F(late_messages, of_other_lanes_do_not_wait) {
  const auto never_yet = none_yet(), now = std::make_shared<std::atomic<int>>(1);
  add("slow", {&a_, 7}, never_yet);
  EXPECT_FALSE(queue_.any_in({&b_, 7}));
  EXPECT_FALSE(queue_.any_in({&a_, 8}));
  EXPECT_FALSE(queue_.any_in({&a_, 0}));
  add("other node", {&b_, 7}, now);
  add("other order", {&a_, 8}, now);
  add("no order", {&a_, 0}, now);
  ASSERT_TRUE(comes(3));
  queue_.wait_for({&b_, 7});
  *never_yet = 1;
  ASSERT_TRUE(comes(4));
  EXPECT_EQ(sent().back(), "slow");
}

// When a thread has begun to wait cannot be seen, so a slow one gets more attempts.
TEST_F(late_messages, that_come_later_are_not_waited_for) {
  bool over_first = false;
  for (int attempt = 1; attempt <= 10 && !over_first; ++attempt) {
    const late_sends::lane in{&a_, static_cast<std::uint64_t>(attempt)};
    const auto first = none_yet(), second = none_yet();
    add("first", in, first);
    std::atomic<bool> over{false};
    std::thread waits([&] {
      queue_.wait_for(in);
      over = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * attempt));
    add("second", in, second);
    *first = 1;
    for (int i = 0; i < 1'000 && !over; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    over_first = over;
    *second = 1;
    waits.join();
  }
  EXPECT_TRUE(over_first);
}

TEST_F(late_messages, without_an_order_leave_as_they_come) {
  const auto first = none_yet(), second = std::make_shared<std::atomic<int>>(1);
  add("first", {&a_, 0}, first);
  add("second", {&a_, 0}, second);
  ASSERT_TRUE(comes(1));
  *first = 1;
  ASSERT_TRUE(comes(2));
  EXPECT_EQ(sent(), (std::vector<std::string>{"second", "first"}));
}

TEST_F(late_messages, of_a_device_that_fails_say_so) {
  add("lost", {&a_, 7}, std::make_shared<std::atomic<int>>(-1));
  add("kept", {&a_, 7}, std::make_shared<std::atomic<int>>(1));
  ASSERT_TRUE(comes(2));
  EXPECT_EQ(sent()[0].find("lost: "), 0u);
  EXPECT_NE(sent()[0].find("the device has failed"), std::string::npos);
  EXPECT_EQ(sent()[1], "kept");
}

TEST_F(late_messages, may_come_from_many_threads) {
  constexpr int threads = 4, each = 200;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (int i = 0; i < each; ++i)
        add(std::to_string(t) + " " + std::to_string(i), {&a_, static_cast<std::uint64_t>(t + 1)},
            i % 2 == 0 ? std::make_shared<std::atomic<int>>(1) : nullptr);
    });
  for (auto& one : all) one.join();
  ASSERT_TRUE(comes(threads * each));
  std::vector<int> next(threads);
  for (const auto& one : sent()) {
    const auto t = static_cast<std::size_t>(one[0] - '0');
    EXPECT_EQ(std::stoi(one.substr(2)), next[t]++);
  }
}

}  // namespace
}  // namespace troupe::test
