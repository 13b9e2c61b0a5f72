// The contract of every store: queues.
#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/transport/store/store_contract.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

TEST_P(store_contract, takes_values_of_a_queue_in_their_order) {
  EXPECT_EQ(a_->queue_len("q"), 0u);
  EXPECT_FALSE(a_->queue_try_pop("q"));
  for (const auto* value : {"1", "", "3"}) a_->queue_push("q", value);
  EXPECT_EQ(b_->queue_len("q"), 3u);
  EXPECT_EQ(text(b_->queue_pop("q")), "1");
  b_->queue_push("q", "4");
  EXPECT_EQ(text(a_->queue_pop("q", 0ms)), "");
  EXPECT_EQ(text(a_->queue_try_pop("q").value()), "3");
  EXPECT_EQ(text(b_->queue_try_pop("q", wait_limit).value()), "4");
  EXPECT_FALSE(b_->queue_try_pop("q"));
  EXPECT_EQ(a_->queue_len("q"), 0u);
}

TEST_P(store_contract, keeps_queues_apart_from_values) {
  a_->queue_push("q", "queued");
  EXPECT_EQ(b_->num_keys(), 0u);
  EXPECT_FALSE(b_->delete_key("q"));
  EXPECT_CONTAINS(text_of<store_error>([&] { b_->get("q", 0ms); }), "wait timeout after 0 ms");
  b_->set("q", "set");
  EXPECT_EQ(text(a_->get("q")), "set");
  EXPECT_EQ(a_->queue_len("q"), 1u);
  EXPECT_TRUE(a_->delete_key("q"));
  EXPECT_EQ(text(b_->queue_pop("q")), "queued");
}

// A queue that is not empty is there; what it once had is not.
TEST_P(store_contract, checks_and_waits_for_queues) {
  const std::vector<std::string> keys = {"q"};
  EXPECT_FALSE(has(*a_, "q"));
  std::atomic<bool> waiting = false;
  std::thread later([&] {
    EXPECT_TRUE(eventually([&] { return waiting.load(); }));
    b_->queue_push("q", "1");
  });
  waiting = true;
  a_->wait(keys, wait_limit);
  EXPECT_TRUE(has(*a_, "q"));
  later.join();
  b_->queue_pop("q");
  EXPECT_FALSE(has(*a_, "q"));
}

TEST_P(store_contract, waits_for_a_value_of_a_queue) {
  const auto message = text_of<store_error>([&] { a_->queue_pop("q", 60ms); });
  EXPECT_CONTAINS(message, "wait timeout after 60 ms, keys: ");
  EXPECT_CONTAINS(message, "q");
  std::atomic<bool> waiting = false;
  std::thread later([&] {
    EXPECT_TRUE(eventually([&] { return waiting.load(); }));
    b_->queue_push("q", "late");
  });
  waiting = true;
  EXPECT_EQ(text(a_->queue_pop("q", wait_limit)), "late");
  later.join();
  EXPECT_THROW(a_->queue_push("", "x"), invalid_argument);
  EXPECT_THROW(a_->queue_pop(""), invalid_argument);
  EXPECT_THROW(a_->queue_len(""), invalid_argument);
}

TEST_P(store_contract, gives_each_value_of_a_queue_to_one) {
  constexpr int threads = 3;
  constexpr int each = 20;
  std::mutex mutex;
  std::multiset<std::string> taken;
  std::vector<std::thread> takers;
  for (int t = 0; t < threads; ++t)
    takers.emplace_back([&, mine = maker_->client()] {
      for (auto value = text(mine->queue_pop("q", wait_limit)); value != "stop";
           value = text(mine->queue_pop("q", wait_limit))) {
        std::lock_guard lock(mutex);
        taken.insert(value);
      }
    });
  std::vector<std::thread> givers;
  std::multiset<std::string> given;
  for (int t = 0; t < threads; ++t) {
    for (int i = 0; i < each; ++i) given.insert(std::to_string(t * each + i));
    givers.emplace_back([mine = maker_->client(), t] {
      for (int i = 0; i < each; ++i) mine->queue_push("q", std::to_string(t * each + i));
    });
  }
  for (auto& t : givers) t.join();
  for (int t = 0; t < threads; ++t) a_->queue_push("q", "stop");
  for (auto& t : takers) t.join();
  EXPECT_EQ(taken, given);
  EXPECT_EQ(a_->queue_len("q"), 0u);
}

TROUPE_ALL_STORES();

}  // namespace
}  // namespace troupe::transport::test
