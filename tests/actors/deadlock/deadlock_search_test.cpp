// How nodes find out together that handlers wait for one another, without a network.

#include "troupe/actors/deadlock/deadlock_search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/deadlock/waiting_handlers.hpp"
#include "troupe/messages/codec/archive.hpp"

namespace troupe::deadlock {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;
using testing::SizeIs;

using message = std::vector<std::byte>;

// A node that knows the other one; what it sends is kept.
class party {
public:
  party(const incarnation& self, const incarnation& other)
      : of_self(peers_.add(make_peer(self))),
        of_other(peers_.add(make_peer(other))),
        looks(
            peers_, driver,
            [this](transport::rank_t, const std::function<void(encoder&)>& write) {
              encoder out(nullptr, nullptr);
              write(out);
              sent.push_back(out.take());
            },
            self) {}

  void take_message(const peer& from, const message& what) {
    decoder in(what, nullptr, nullptr);
    looks.deliver(from, in);
  }

  std::vector<message> take() { return std::exchange(sent, {}); }

private:
  peer_table peers_;

public:
  still_engine driver;
  peer& of_self;
  peer& of_other;
  std::vector<message> sent;
  search looks;
};

// Until neither has a message to send.
void talk(party& a, party& b) {
  while (!a.sent.empty() || !b.sent.empty()) {
    for (const auto& one : a.take()) b.take_message(b.of_other, one);
    for (const auto& one : b.take()) a.take_message(a.of_other, one);
  }
}

clock::time_point much_later() { return clock::now() + 1h; }

// `count` pairs of handlers, each of which waits for the other.
void add_cycles(handlers& all, party& a, party& b, std::uint64_t count) {
  for (std::uint64_t i = 1; i <= count; ++i) {
    all.add(a.looks.waits(), a.of_other, i, question{here, there, i, 0});
    all.add(b.looks.waits(), b.of_other, i, question{there, here, i, 0});
  }
}

TEST(deadlock_search, ends_a_cycle) {
  party a(here, there), b(there, here);
  handlers all;
  add_cycles(all, a, b, 1);
  a.looks.run_timer(much_later());
  talk(a, b);
  EXPECT_EQ(all.failed(), 1u);
}

// Each message is read by get_list, which takes no longer one.
TEST(deadlock_search, ends_more_cycles_than_a_message_may_list) {
  constexpr std::uint64_t many = 2 * most_in_message + 1;
  party a(here, there), b(there, here);
  handlers all;
  add_cycles(all, a, b, many);
  a.looks.run_timer(much_later());
  talk(a, b);
  EXPECT_EQ(all.failed(), many);
}

TEST(deadlock_search, takes_no_message_for_the_incarnation_before) {
  party a(here, there), b(there, here), again({1, 8}, here);
  handlers all;
  add_cycles(all, a, b, 1);
  all.add(again.looks.waits(), again.of_other, 1, question{{1, 8}, here, 1, 0});
  a.looks.run_timer(much_later());
  const auto asked = a.take();
  ASSERT_THAT(asked, SizeIs(1));
  again.take_message(again.of_other, asked[0]);
  EXPECT_THAT(again.sent, IsEmpty());

  b.take_message(b.of_other, asked[0]);
  for (const auto& reply : b.take()) a.take_message(a.of_other, reply);
  const auto to_confirm = a.take();
  ASSERT_THAT(to_confirm, SizeIs(1));
  again.take_message(again.of_other, to_confirm[0]);  // it has a wait of that number
  EXPECT_THAT(again.sent, IsEmpty());
  EXPECT_EQ(all.failed(), 0u);
}

TEST(deadlock_search, takes_no_answer_of_another_incarnation_than_it_has_asked) {
  party a(here, there), b(there, here);
  const auto again = make_peer({1, 8});
  handlers all;
  add_cycles(all, a, b, 1);
  a.looks.run_timer(much_later());
  for (const auto& asked : a.take()) b.take_message(b.of_other, asked);
  const auto replies = b.take();
  ASSERT_THAT(replies, SizeIs(1));
  a.take_message(*again, replies[0]);
  EXPECT_THAT(a.sent, IsEmpty());
  a.take_message(a.of_other, replies[0]);
  EXPECT_THAT(a.sent, SizeIs(1));  // it asks b to confirm
  for (const auto& one : a.take()) b.take_message(b.of_other, one);
  const auto confirmed = b.take();
  ASSERT_THAT(confirmed, SizeIs(1));
  a.take_message(*again, confirmed[0]);
  EXPECT_EQ(all.failed(), 0u);
  a.take_message(a.of_other, confirmed[0]);
  EXPECT_EQ(all.failed(), 1u);
}

TEST(deadlock_search, sends_nothing_to_the_incarnation_after) {
  party a(here, there);
  handlers all;
  all.add(a.looks.waits(), a.of_other, 1, question{here, there_before, 1, 0});
  a.looks.run_timer(much_later());
  EXPECT_THAT(a.sent, IsEmpty());
}

// A node that is gone does not answer: that must not hide the cycle.
TEST(deadlock_search, ends_a_cycle_beside_a_wait_for_a_lost_node) {
  party a(here, there), b(there, here);
  handlers all;
  add_cycles(all, a, b, 1);
  all.add(a.looks.waits(), a.of_other, 2, question{here, there_before, 2, 0});
  all.add(b.looks.waits(), b.of_other, 2, question{there, {99, 1}, 2, 0});
  a.looks.run_timer(much_later());
  talk(a, b);
  EXPECT_EQ(all.failed(), 1u);
}

TEST(deadlock_search, lets_what_continues_a_failed_wait_look_again) {
  party a(here, there);
  handlers all;
  // It waits for the call that it answers.
  auto& one = all.add(a.looks.waits(), a.of_self, 1, question{here, here, 1, 0});
  bool looked = false;
  one.answer->when_ready(detail::make_continuation([&] {
    a.looks.run_timer(much_later());
    looked = true;
  }));
  a.looks.run_timer(much_later());
  EXPECT_TRUE(looked);
  EXPECT_TRUE(one.failed());
}

}  // namespace
}  // namespace troupe::deadlock
