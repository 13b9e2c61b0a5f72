// The contract of every store: single keys. store_many_keys_test.cpp and store_queue_test.cpp have
// the rest.
#include <atomic>
#include <limits>
#include <thread>
#include <vector>

#include "tests/transport/store/store_contract.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

TEST_P(store_contract, keeps_what_is_set) {
  a_->set("k", "one");
  EXPECT_EQ(text(b_->get("k", wait_limit)), "one");
  b_->set("k", "");
  EXPECT_EQ(text(a_->get("k", 0ms)), "");
  const std::string binary("\0\xff\n\0", 4);
  a_->set("key with \xff and spaces/", binary);
  EXPECT_EQ(text(b_->get("key with \xff and spaces/")), binary);
  EXPECT_EQ(a_->num_keys(), 2u);
}

TEST_P(store_contract, waits_for_a_key_that_comes_later) {
  std::atomic<bool> waiting = false;
  std::thread later([&] {
    EXPECT_TRUE(eventually([&] { return waiting.load(); }));
    b_->set("x", "1");
    b_->set("y", "2");
  });
  waiting = true;
  const std::vector<std::string> keys = {"x", "y"};
  a_->wait(keys, wait_limit);
  EXPECT_EQ(text(a_->get("y", 0ms)), "2");
  later.join();
}

TEST_P(store_contract, names_the_keys_that_did_not_come) {
  a_->set("there", "");
  const std::vector<std::string> keys = {"there", "missing", "absent"};
  const auto start = std::chrono::steady_clock::now();
  const auto message = text_of<store_error>([&] { a_->wait(keys, 60ms); });
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_CONTAINS(message, "wait timeout after 60 ms, keys: ");
  EXPECT_CONTAINS(message, "missing, ");
  EXPECT_CONTAINS(message, "absent");
  EXPECT_EQ(message.find("there"), std::string::npos) << message;
  EXPECT_GE(took, 60ms);
  EXPECT_LT(took, soon_enough);
  EXPECT_CONTAINS(text_of<store_error>([&] { a_->get("missing", 0ms); }),
                  "wait timeout after 0 ms, keys: ");
  // Still usable.
  EXPECT_EQ(text(a_->get("there", wait_limit)), "");
}

TEST_P(store_contract, adds_numbers) {
  EXPECT_EQ(a_->add("n", 5), 5);
  EXPECT_EQ(b_->add("n", -7), -2);
  EXPECT_EQ(text(a_->get("n")), "-2");
  a_->set("n", "40");
  EXPECT_EQ(b_->add("n", 2), 42);
  a_->set("n", "4x");
  EXPECT_CONTAINS(text_of<store_error>([&] { b_->add("n", 1); }), "add needs a number");
  a_->set("n", std::to_string(std::numeric_limits<std::int64_t>::max()));
  EXPECT_CONTAINS(text_of<store_error>([&] { b_->add("n", 1); }), "overflows");
}

TEST_P(store_contract, compares_and_sets) {
  const auto one = to_bytes("one");
  const auto two = to_bytes("two");
  EXPECT_EQ(a_->compare_set("k", one, two), one);  // missing, and something was expected
  EXPECT_FALSE(has(*a_, "k"));
  EXPECT_EQ(a_->compare_set("k", {}, one), one);
  EXPECT_EQ(b_->compare_set("k", {}, two), one);
  EXPECT_EQ(b_->compare_set("k", two, two), one);
  EXPECT_EQ(b_->compare_set("k", one, two), two);
  EXPECT_EQ(a_->get("k"), two);
}

TEST_P(store_contract, deletes) {
  a_->set("k", "1");
  EXPECT_TRUE(b_->delete_key("k"));
  EXPECT_FALSE(a_->delete_key("k"));
  EXPECT_FALSE(has(*a_, "k"));
  EXPECT_EQ(b_->num_keys(), 0u);
}

TEST_P(store_contract, checks_all_keys) {
  a_->set("x", "");
  const std::vector<std::string> both = {"x", "y"};
  EXPECT_FALSE(b_->check(both));
  a_->set("y", "");
  EXPECT_TRUE(b_->check(both));
  EXPECT_TRUE(b_->check({}));
}

TEST_P(store_contract, refuses_keys_and_values_beyond_the_limits) {
  EXPECT_THROW(a_->set("", "x"), invalid_argument);
  EXPECT_THROW(a_->set(std::string(max_store_key + 1, 'k'), "x"), invalid_argument);
  const std::vector<std::byte> large(max_store_value + 1);
  EXPECT_THROW(a_->set("k", large), invalid_argument);
  EXPECT_THROW(a_->compare_set("k", large, {}), invalid_argument);
  EXPECT_THROW(a_->compare_set("k", {}, large), invalid_argument);
  EXPECT_THROW(a_->check(std::vector<std::string>{"fine", ""}), invalid_argument);
  EXPECT_EQ(a_->num_keys(), 0u);
}

TEST_P(store_contract, carries_a_large_value) {
  std::vector<std::byte> large(8 << 20);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = std::byte(i * 7 >> 3);
  a_->set("large", large);
  EXPECT_EQ(b_->get("large"), large);
}

TEST_P(store_contract, is_atomic_under_concurrency) {
  constexpr int threads = 8;
  constexpr int rounds = 50;
  std::atomic<int> wins = 0;
  std::vector<std::thread> crowd;
  for (int t = 0; t < threads; ++t) {
    crowd.emplace_back([&, t, mine = maker_->client()] {
      for (int i = 0; i < rounds; ++i) {
        mine->add("sum", 1);
        const auto me = to_bytes("thread " + std::to_string(t));
        if (mine->compare_set("first of " + std::to_string(i), {}, me) == me) ++wins;
      }
    });
  }
  for (auto& t : crowd) t.join();
  EXPECT_EQ(a_->add("sum", 0), threads * rounds);
  EXPECT_EQ(wins, rounds);
}

TEST_P(store_contract, a_waiting_thread_holds_up_no_other) {
  std::thread waiter([&] { EXPECT_EQ(text(a_->get("signal", wait_limit)), "go"); });
  // On the same object, while the other thread waits in it.
  for (int i = 0; i < 20; ++i) a_->add("n", 1);
  EXPECT_EQ(a_->add("n", 0), 20);
  a_->set("signal", "go");
  waiter.join();
}

TROUPE_ALL_STORES();

TEST(prefix_store, keeps_keys_apart) {
  auto shared = std::make_shared<hash_store>();
  prefix_store a("a", shared);
  prefix_store b("b", shared);
  a.set("k", "1");
  b.set("k", "2");
  EXPECT_EQ(to_text(a.get("k")), "1");
  EXPECT_EQ(to_text(b.get("k")), "2");
  EXPECT_EQ(to_text(shared->get("a/k")), "1");
  EXPECT_EQ(a.num_keys(), 2u);
  a.queue_push("q", "1");
  EXPECT_EQ(b.queue_len("q"), 0u);
  EXPECT_EQ(shared->queue_len("a/q"), 1u);
  EXPECT_EQ(b.list_keys(), std::vector<std::string>{"k"});
  EXPECT_EQ(shared->list_keys(), (std::vector<std::string>{"a/k", "b/k"}));
  EXPECT_EQ(a.underlying(), shared);
  EXPECT_THROW(prefix_store("a", nullptr), invalid_argument);
}

TEST(prefix_store, begins_with_the_timeout_of_what_it_is_part_of) {
  auto shared = std::make_shared<hash_store>();
  shared->set_timeout(70ms);
  prefix_store one("a", shared);
  EXPECT_EQ(one.timeout(), 70ms);
  one.set_timeout(80ms);
  EXPECT_EQ(shared->timeout(), 70ms);
  EXPECT_EQ(prefix_store("b", std::make_shared<prefix_store>("c", shared)).timeout(), 70ms);
}

}  // namespace
}  // namespace troupe::transport::test
