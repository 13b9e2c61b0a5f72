// Which client gets a value of a queue, and what a store does at its limits.
#include "troupe/transport/store/store_waiters.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport {
namespace {

using op = store_request::op;
using kind = store_reply::kind;
using clients = std::vector<std::uint64_t>;

class store_waiters_test : public testing::Test {
protected:
  std::optional<store_reply> pop(std::uint64_t client, bool last_chance = false) {
    store_request request{.what = op::queue_pop, .keys = {"q"}};
    return waiters_.answer(client, request, last_chance);
  }

  void push(const std::string& value) {
    store_request request{.what = op::queue_push, .keys = {"q"}, .value = to_bytes(value)};
    const auto reply = waiters_.answer(99, request, false);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->what, kind::done);
  }

  static std::string text(const std::optional<store_reply>& reply) {
    return reply && reply->what == kind::value ? to_text(reply->value) : "nothing";
  }

  store_waiters waiters_{1 << 20};
};

TEST_F(store_waiters_test, makes_one_ready_for_each_value_and_the_first_first) {
  for (const std::uint64_t client : {1, 2, 3}) EXPECT_FALSE(pop(client));
  EXPECT_TRUE(waiters_.take_ready().empty());
  push("a");
  push("b");
  EXPECT_EQ(waiters_.take_ready(), (clients{1, 2}));
  EXPECT_EQ(text(pop(1)), "a");
  EXPECT_EQ(text(pop(2)), "b");
  EXPECT_TRUE(waiters_.take_ready().empty());
}

// A value must not lie there while a client waits for it.
TEST_F(store_waiters_test, makes_another_ready_for_one_that_leaves) {
  for (const std::uint64_t client : {1, 2}) EXPECT_FALSE(pop(client));
  push("a");
  EXPECT_EQ(waiters_.take_ready(), clients{1});
  waiters_.forget(1);
  EXPECT_EQ(waiters_.take_ready(), clients{2});
  EXPECT_EQ(text(pop(2)), "a");
}

TEST_F(store_waiters_test, forgets_one_that_leaves_before_it_is_ready) {
  for (const std::uint64_t client : {1, 2}) EXPECT_FALSE(pop(client));
  waiters_.forget(1);
  push("a");
  EXPECT_EQ(waiters_.take_ready(), clients{2});
}

TEST_F(store_waiters_test, puts_one_that_finds_nothing_back_to_its_place) {
  for (const std::uint64_t client : {1, 2}) EXPECT_FALSE(pop(client));
  push("a");
  EXPECT_EQ(waiters_.take_ready(), clients{1});
  EXPECT_EQ(text(pop(3)), "a");  // one that comes just then
  EXPECT_FALSE(pop(1));
  push("b");
  EXPECT_EQ(waiters_.take_ready(), clients{1});
  EXPECT_EQ(text(pop(1)), "b");
}

TEST_F(store_waiters_test, answers_one_that_has_waited_long_enough) {
  EXPECT_FALSE(pop(1));
  const auto reply = pop(1, true);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->what, kind::missing);
  EXPECT_EQ(reply->keys, std::vector<std::string>{"q"});
  push("a");
  EXPECT_TRUE(waiters_.take_ready().empty());
}

TEST_F(store_waiters_test, sends_no_more_values_than_one_answer_carries) {
  store_waiters waiters(std::size_t{1} << 30);
  waiters.put("k", store::bytes(1 << 20));
  // 64 GiB that one request of 1 MiB asks for.
  store_request request{.what = op::multi_get, .keys = {max_store_keys_at_once, "k"}};
  const auto reply = waiters.answer(1, request, false);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->what, kind::failed);
  EXPECT_NE(to_text(reply->value).find("get them in several calls"), std::string::npos);
}

// Looked at all over again each time, this would take minutes.
TEST_F(store_waiters_test, waits_for_as_many_keys_as_one_call_can_name) {
  store_waiters waiters(std::size_t{1} << 30);
  store_request wait{.what = op::wait};
  for (std::size_t i = 0; i < max_store_keys_at_once; ++i)
    wait.keys.push_back("key " + std::to_string(i));
  const auto start = std::chrono::steady_clock::now();
  ASSERT_FALSE(waiters.answer(1, wait, false));
  for (std::size_t i = 0; i < wait.keys.size(); ++i) {
    store_request set{.what = op::set, .keys = {wait.keys[i]}};
    ASSERT_TRUE(waiters.answer(2, set, false));
    ASSERT_EQ(waiters.take_ready(), clients{1});
    const auto reply = waiters.answer(1, wait, false);
    ASSERT_EQ(reply.has_value(), i + 1 == wait.keys.size()) << i;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

// What is deleted while others are missing is waited for again.
TEST_F(store_waiters_test, waits_until_all_keys_are_there_at_once) {
  const auto change = [&](op what, const std::string& key) {
    store_request request{.what = what, .keys = {key}};
    EXPECT_TRUE(waiters_.answer(2, request, false));
  };
  store_request wait{.what = op::multi_get, .keys = {"a", "b", "c"}};
  EXPECT_FALSE(waiters_.answer(1, wait, false));
  change(op::set, "a");
  EXPECT_FALSE(waiters_.answer(1, wait, false));
  change(op::delete_key, "a");
  change(op::set, "b");
  EXPECT_FALSE(waiters_.answer(1, wait, false));
  change(op::set, "c");
  EXPECT_FALSE(waiters_.answer(1, wait, false));
  EXPECT_EQ(waiters_.answer(1, wait, true)->keys, std::vector<std::string>{"a"});
  EXPECT_FALSE(waiters_.answer(1, wait, false));
  change(op::set, "a");
  EXPECT_EQ(waiters_.take_ready().back(), 1u);
  const auto reply = waiters_.answer(1, wait, false);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->values.size(), 3u);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const store_error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(store_state, holds_no_more_values_than_it_may) {
  store_state state(1 << 20, 3);
  state.set("a", {});
  state.append("b", to_bytes("b"));
  state.queue_push("q", {});
  const std::string full = "the store is full: it has 3 values of 3";
  EXPECT_NE(refusal([&] { state.set("c", {}); }).find(full), std::string::npos);
  EXPECT_NE(refusal([&] { state.append("c", {}); }).find(full), std::string::npos);
  EXPECT_NE(refusal([&] { state.add("c", 1); }).find(full), std::string::npos);
  EXPECT_NE(refusal([&] { state.queue_push("q", {}); }).find(full), std::string::npos);
  const std::vector<std::string> keys = {"a", "c"};
  EXPECT_NE(refusal([&] {
              state.multi_set(keys, {to_bytes("1"), {}});
            }).find(full),
            std::string::npos);
  EXPECT_TRUE(state.find("a")->empty());  // all or none
  state.set("a", to_bytes("2"));          // what is there may change
  EXPECT_TRUE(state.queue_pop("q"));
  state.multi_set(keys, {to_bytes("1"), {}});
}

TEST(store_state, counts_the_bytes_of_all_it_holds) {
  store_state state(100);
  const store::bytes half(49);
  state.set("a", half);
  EXPECT_THROW(state.queue_push("q", store::bytes(50)), store_error);
  state.queue_push("q", half);
  EXPECT_THROW(state.append("a", to_bytes("1")), store_error);
  EXPECT_EQ(state.queue_pop("q"), half);
  state.append("a", half);
  EXPECT_THROW(state.queue_push("q", to_bytes("1")), store_error);
  EXPECT_TRUE(state.erase("a"));
  // Of two values for one key only the last takes room.
  const std::vector<std::string> twice = {"a", "a"};
  state.multi_set(twice, {store::bytes(80), store::bytes(99)});
  EXPECT_EQ(state.find("a")->size(), 99u);
  // What shrinks makes room for what grows, in either order.
  const std::vector<std::string> keys = {"a", "b"};
  state.multi_set(keys, {store::bytes(1), store::bytes(97)});
  state.multi_set(keys, {store::bytes(97), store::bytes(1)});
  EXPECT_EQ(state.find("a")->size(), 97u);
}

TEST(store_state, appends_up_to_the_largest_value) {
  store_state state;
  state.set("k", store::bytes(max_store_value - 1));
  EXPECT_NE(refusal([&] { state.append("k", store::bytes(2)); }).find("makes more than"),
            std::string::npos);
  state.append("k", store::bytes(1));
  EXPECT_EQ(state.find("k")->size(), max_store_value);
}

TEST(store_state, leaves_alone_what_somebody_reads) {
  store_state state;
  state.set("k", to_bytes("one"));
  const auto read = state.find("k");
  state.append("k", to_bytes("two"));
  EXPECT_EQ(to_text(*read), "one");
  EXPECT_EQ(to_text(*state.find("k")), "onetwo");
}

}  // namespace
}  // namespace troupe::transport
