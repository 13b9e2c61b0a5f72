// The contract of every store: appending, many keys at once, lists of keys, clones, timeouts.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/transport/store/store_contract.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

using strings = std::vector<std::string>;

std::vector<store::bytes> values(const strings& texts) {
  std::vector<store::bytes> out;
  for (const auto& text : texts) out.push_back(to_bytes(text));
  return out;
}

TEST_P(store_contract, appends_to_what_is_there) {
  a_->append("k", "one");
  b_->append("k", "");
  b_->append("k", " two");
  EXPECT_EQ(text(a_->get("k")), "one two");
  a_->set("n", "4");
  a_->append("n", "2");
  EXPECT_EQ(b_->add("n", 1), 43);
  EXPECT_THROW(a_->append("", "x"), invalid_argument);
  EXPECT_THROW(a_->append("k", std::vector<std::byte>(max_store_value + 1)), invalid_argument);
}

TEST_P(store_contract, loses_nothing_that_several_append) {
  constexpr int threads = 4;
  constexpr int rounds = 25;
  std::vector<std::thread> crowd;
  for (int t = 0; t < threads; ++t)
    crowd.emplace_back([mine = maker_->client(), t] {
      for (int i = 0; i < rounds; ++i)
        mine->append("k", std::string(3, static_cast<char>('a' + t)));
    });
  for (auto& t : crowd) t.join();
  const auto all = text(a_->get("k"));
  ASSERT_EQ(all.size(), std::size_t{3} * threads * rounds);
  // Nobody's three are torn apart.
  for (std::size_t i = 0; i < all.size(); i += 3)
    EXPECT_EQ(all.substr(i, 3), std::string(3, all[i]));
}

TEST_P(store_contract, sets_and_gets_many) {
  const strings keys = {"x", "y"};
  a_->multi_set(keys, values({"1", "2"}));
  EXPECT_EQ(b_->multi_get(strings{"y", "x", "y"}), values({"2", "1", "2"}));
  EXPECT_EQ(text(b_->get("x")), "1");
  // The last of equal keys counts.
  b_->multi_set(strings{"x", "z", "x"}, values({"3", "4", ""}));
  EXPECT_EQ(a_->multi_get(strings{"x", "z"}), values({"", "4"}));
  EXPECT_EQ(a_->num_keys(), 3u);
  a_->multi_set({}, {});
  EXPECT_TRUE(a_->multi_get({}).empty());
}

TEST_P(store_contract, sets_none_of_many_that_cannot_be) {
  EXPECT_CONTAINS(text_of<invalid_argument>([&] {
                    a_->multi_set(strings{"x", "y"}, values({"1"}));
                  }),
                  "a value for each key, but there are 1 for 2");
  EXPECT_THROW(a_->multi_set(strings{"x", ""}, values({"1", "2"})), invalid_argument);
  const std::vector<store::bytes> large(2, store::bytes(max_store_value / 2 + 1));
  EXPECT_CONTAINS(text_of<invalid_argument>([&] {
                    a_->multi_set(strings{"x", "y"}, large);
                  }),
                  "together");
  EXPECT_EQ(b_->num_keys(), 0u);
}

TEST_P(store_contract, gets_many_when_the_last_is_there) {
  a_->set("x", "1");
  EXPECT_CONTAINS(text_of<store_error>([&] {
                    a_->multi_get(strings{"x", "late"}, 30ms);
                  }),
                  "wait timeout after 30 ms, keys: ");
  std::atomic<bool> waiting = false;
  std::thread later([&] {
    EXPECT_TRUE(eventually([&] { return waiting.load(); }));
    b_->set("late", "2");
  });
  waiting = true;
  EXPECT_EQ(a_->multi_get(strings{"x", "late"}, wait_limit), values({"1", "2"}));
  later.join();
}

TEST_P(store_contract, shows_nobody_half_of_many) {
  const strings keys = {"x", "y"};
  a_->multi_set(keys, values({"0", "0"}));
  std::thread writer([&] {
    for (int i = 0; i < 50; ++i) b_->multi_set(keys, values(strings(2, std::to_string(i))));
  });
  for (int i = 0; i < 50; ++i) {
    const auto seen = a_->multi_get(keys, wait_limit);
    EXPECT_EQ(seen[0], seen[1]);
  }
  writer.join();
}

TEST_P(store_contract, lists_its_keys) {
  EXPECT_TRUE(a_->list_keys().empty());
  for (const auto* key : {"b/2", "a", "b/1", "c"}) a_->set(key, "");
  a_->queue_push("b/queue", "");
  EXPECT_EQ(b_->list_keys(), (strings{"a", "b/1", "b/2", "c"}));
  EXPECT_EQ(b_->list_keys("b/"), (strings{"b/1", "b/2"}));
  EXPECT_TRUE(b_->list_keys("d").empty());
  b_->delete_key("b/1");
  EXPECT_EQ(a_->list_keys("b/"), strings{"b/2"});
  EXPECT_THROW(a_->list_keys(std::string(max_store_key + 1, 'k')), invalid_argument);
}

TEST_P(store_contract, has_clones_of_their_own) {
  a_->set_timeout(70ms);
  auto other = a_->clone();
  EXPECT_EQ(other->timeout(), 70ms);
  other->set_timeout(80ms);
  EXPECT_EQ(a_->timeout(), 70ms);
  other->set("k", "1");
  EXPECT_EQ(text(a_->get("k")), "1");
  a_.reset();
  EXPECT_EQ(text(other->get("k")), "1");
  EXPECT_EQ(text(b_->get("k")), "1");
}

TEST_P(store_contract, waits_for_as_long_as_was_set) {
  EXPECT_EQ(a_->timeout(), 300s);
  a_->set_timeout(40ms);
  const strings keys = {"missing"};
  const auto start = std::chrono::steady_clock::now();
  for (const auto& message : {text_of<store_error>([&] { a_->get("missing"); }),
                              text_of<store_error>([&] { a_->wait(keys); }),
                              text_of<store_error>([&] { a_->multi_get(keys); }),
                              text_of<store_error>([&] { a_->queue_pop("missing"); })}) {
    EXPECT_CONTAINS(message, "wait timeout after 40 ms, keys: ");
    EXPECT_CONTAINS(message, "missing");
  }
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, 4 * 40ms);
  EXPECT_LT(took, soon_enough);
  EXPECT_CONTAINS(text_of<invalid_argument>([&] { a_->set_timeout(-1ms); }), "-1 ms");
  EXPECT_EQ(a_->timeout(), 40ms);
}

TROUPE_ALL_STORES();

}  // namespace
}  // namespace troupe::transport::test
