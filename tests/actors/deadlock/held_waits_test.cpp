// What a node reports of its handlers that wait, and what a message may list.

#include "troupe/actors/deadlock/held_waits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/deadlock/waiting_handlers.hpp"
#include "troupe/actors/deadlock/message_codec.hpp"
#include "troupe/actors/future/combinators.hpp"

namespace troupe::deadlock {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

prospect prospect_of(held_waits& in, const question& one) {
  return in.look_at({one}).outlooks.at(0).what;
}

TEST(held_waits, know_who_answers_a_call_of_this_incarnation_only) {
  still_engine engine;
  held_waits waits(engine, here);
  const auto caller = make_peer(there);
  handlers all;
  all.add(waits, *caller, 10, question{here, there, 20, 0});
  EXPECT_EQ(prospect_of(waits, {there, here, 10, 0}), prospect::handler);
  EXPECT_EQ(prospect_of(waits, {there_before, here, 10, 0}), prospect::open);
  EXPECT_EQ(prospect_of(waits, {there, {0, 4}, 10, 0}), prospect::open);
  EXPECT_EQ(prospect_of(waits, {there, here, 11, 0}), prospect::open);
}

TEST(held_waits, know_a_call_in_the_queue_of_this_incarnation_only) {
  still_engine engine;
  engine.threads = 1;
  held_waits waits(engine, here);
  const auto caller = make_peer(there);
  engine.queue.emplace_back(new idle_call(*caller, 11), false);
  EXPECT_EQ(prospect_of(waits, {there, here, 11, 0}), prospect::open);  // a thread is left
  handlers all;
  all.add(waits, *caller, 10, question{here, there, 20, 0});
  EXPECT_EQ(prospect_of(waits, {there, here, 11, 0}), prospect::thread);
  EXPECT_EQ(prospect_of(waits, {there_before, here, 11, 0}), prospect::open);
}

TEST(held_waits, look_through_the_queue_once_for_all_questions) {
  still_engine engine;
  engine.threads = 1;
  held_waits waits(engine, here);
  const auto caller = make_peer(there);
  handlers all;
  all.add(waits, *caller, 10, question{here, there, 20, 0});
  std::vector<question> asked{{there, here, 10, 0}};
  for (std::uint64_t i = 100; i < 600; ++i) {
    engine.queue.emplace_back(new idle_call(*caller, i), false);
    asked.push_back({there, here, i, 0});
  }
  asked.push_back({there, here, 9'999, 0});
  const auto result = waits.look_at(asked);
  EXPECT_EQ(engine.passes, 1);
  ASSERT_THAT(result.outlooks, SizeIs(asked.size()));
  EXPECT_EQ(result.outlooks.front().what, prospect::handler);
  EXPECT_EQ(result.outlooks.back().what, prospect::open);
  for (std::size_t i = 1; i + 1 < asked.size(); ++i)
    EXPECT_EQ(result.outlooks[i].what, prospect::thread);
  EXPECT_EQ(result.max_threads, 1u);
  EXPECT_THAT(result.handlers, SizeIs(1));
}

TEST(held_waits, let_what_continues_a_failed_wait_use_them) {
  still_engine engine;
  held_waits waits(engine, here);
  const auto caller = make_peer(there);
  handlers all;
  auto& first = all.add(waits, *caller, 10, question{here, there, 20, 0});
  auto& second = all.add(waits, *caller, 11, question{here, there, 21, 0});
  prospect seen = prospect::open;
  first.answer->when_ready(detail::make_continuation([&] {
    seen = prospect_of(waits, {there, here, 10, 0});
    waits.fail(2, fault{});
  }));
  waits.fail(1, fault{});
  EXPECT_TRUE(first.answer->ready());
  EXPECT_EQ(seen, prospect::handler);
  EXPECT_TRUE(second.answer->ready());
}

// The future of calls that are made one after the other.
class following_calls final : public detail::relayed_state<int> {
public:
  following_calls() : relayed_state(nullptr, {}) {}
  using relayed_state::let_go;
  using relayed_state::wait_for;
};

class one_call final : public int_state {
public:
  explicit one_call(const question& what) : int_state(nullptr), what_(what) {}

private:
  question asked() const noexcept override { return what_; }
  const question what_;
};

TEST(held_waits, follow_a_call_from_one_attempt_to_the_next) {
  still_engine engine;
  held_waits waits(engine, here);
  const auto caller = make_peer(there);
  const running_call runs(*caller, 10, "f");
  const auto answer = std::make_shared<following_calls>();
  const question first{here, there, 20, 0};
  const question second{here, there, 21, 0};
  auto due = [&, now = clock::now()]() mutable {
    auto next = never;
    return waits.take_due(now += std::chrono::hours(1), next);
  };
  // Of a call that has not been made anything may come.
  const held_waits::scope held(&waits, answer, question{});
  EXPECT_THAT(due(), IsEmpty());
  EXPECT_EQ(prospect_of(waits, {there, here, 10, 0}), prospect::open);

  answer->wait_for(std::make_shared<one_call>(first));
  EXPECT_EQ(prospect_of(waits, {there, here, 10, 0}), prospect::handler);
  const auto before = due();
  ASSERT_THAT(before, SizeIs(1));
  EXPECT_EQ(before[0].waits_for, first);
  EXPECT_TRUE(waits.still_wait({before[0].number}));

  answer->let_go();
  EXPECT_EQ(prospect_of(waits, {there, here, 10, 0}), prospect::open);
  answer->wait_for(std::make_shared<one_call>(second));
  EXPECT_FALSE(waits.still_wait({before[0].number}));
  const auto after = due();
  ASSERT_THAT(after, SizeIs(1));
  EXPECT_EQ(after[0].waits_for, second);
  EXPECT_TRUE(waits.still_wait({after[0].number}));
}

// ---- Messages

template <class T>
std::vector<std::byte> written(const std::vector<T>& all) {
  encoder out(nullptr, nullptr);
  out.put(all);
  return out.take();
}

template <class T>
std::vector<T> read(const std::vector<std::byte>& bytes) {
  decoder in(bytes, nullptr, nullptr);
  return get_list<T>(in);
}

TEST(wait_messages, list_so_many_and_no_more) {
  EXPECT_THAT(read<question>(written(std::vector<question>(most_in_message))),
              SizeIs(most_in_message));
  EXPECT_THROW(read<question>(written(std::vector<question>(most_in_message + 1))), decode_error);
  EXPECT_THROW(read<std::uint64_t>(written(std::vector<std::uint64_t>(most_in_message + 1))),
               decode_error);
}

TEST(wait_messages, are_as_many_as_a_list_needs) {
  const auto sizes_of = [](std::size_t count) {
    std::vector<std::size_t> out;
    in_messages(std::vector<int>(count), [&](const auto& some) { out.push_back(some.size()); });
    return out;
  };
  EXPECT_THAT(sizes_of(0), IsEmpty());
  EXPECT_THAT(sizes_of(most_in_message), ElementsAre(most_in_message));
  EXPECT_THAT(sizes_of(2 * most_in_message + 1), ElementsAre(most_in_message, most_in_message, 1u));
}

}  // namespace
}  // namespace troupe::deadlock
