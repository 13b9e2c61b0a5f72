// References that go by the thousand: how many messages say so, and what waits meanwhile.
#include "actors/rref/drop_queue.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "actors/rref/rref_table.hpp"
#include "actors/simulation/simulation.hpp"
#include "tests/actors/job.hpp"

namespace troupe::test {

namespace {

using detail::drop_queue;

rref_id numbered(std::uint64_t number, std::uint32_t creator = 0) {
  return {creator, 1, 7, 9, number};
}

// All messages, as the owner would get them: it says when it has taken up what is under way.
std::vector<drop_queue::message> all_of(drop_queue& queue) {
  std::vector<drop_queue::message> out;
  for (;;) {
    auto some = queue.take();
    if (!some.empty()) {
      out.push_back(std::move(some));
    } else {
      if (queue.waiting() == 0) return out;
      queue.taken_up(drop_queue::told_after);
    }
  }
}

TEST(drop_queue, tells_of_a_million_in_a_row_with_a_few_messages) {
  constexpr std::uint64_t count = 1'000'000;
  drop_queue queue;
  std::vector<drop_queue::message> sent;
  for (std::uint64_t i = 1; i <= count; ++i) {
    queue.add(numbered(i), 0);
    if (auto some = queue.take(); !some.empty()) sent.push_back(std::move(some));
    ASSERT_LE(queue.waiting(), 1u);
  }
  EXPECT_EQ(sent.size(), drop_queue::most_under_way) << "the owner has taken up none of them";
  for (auto& one : all_of(queue)) sent.push_back(std::move(one));
  EXPECT_LE(sent.size(), drop_queue::most_under_way + count / drop_queue::most_uses + 1);
  std::uint64_t next = 1;
  for (const auto& message : sent)
    for (const auto& some : message) {
      EXPECT_LE(some.count, drop_queue::most_uses);
      ASSERT_EQ(some.first, next);
      next += some.count;
    }
  EXPECT_EQ(next, count + 1);
}

TEST(drop_queue, tells_of_every_use_once_in_whatever_order) {
  std::mt19937_64 random(3);
  drop_queue queue;
  std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> expected, told;
  for (int i = 0; i < 20'000; ++i) {
    const auto number = random() % 4'000 + 1;
    const auto use = random() % 3;
    const auto creator = static_cast<std::uint32_t>(random() % 2);
    if (!expected.emplace(creator, number, use).second) continue;
    queue.add(numbered(number, creator), use);
  }
  for (std::uint64_t i = 9'000; i > 5'000; --i) {  // backwards
    expected.emplace(0, i, 0);
    queue.add(numbered(i), 0);
  }
  const auto waiting = queue.waiting();
  const auto sent = all_of(queue);
  EXPECT_LE(sent.size(), waiting / drop_queue::most_entries + 4);
  for (const auto& message : sent) {
    EXPECT_LE(message.size(), drop_queue::most_entries);
    for (const auto& some : message)
      for (std::uint32_t i = 0; i < some.count; ++i)
        EXPECT_TRUE(told.emplace(some.creator, some.first + i, some.use).second) << some.first + i;
  }
  EXPECT_EQ(told, expected);
}

TEST(drop_queue, sends_no_more_than_the_owner_takes_up) {
  drop_queue queue;
  std::uint64_t number = 0;
  const auto sent = [&] {
    std::uint32_t messages = 0;
    for (int i = 0; i < 1'000; ++i) {
      queue.add(numbered(number += 2), 0);
      if (!queue.take().empty()) ++messages;
    }
    return messages;
  };
  EXPECT_EQ(sent(), drop_queue::most_under_way);
  EXPECT_EQ(sent(), 0u);
  queue.taken_up(2);
  EXPECT_EQ(sent(), 2u);
  queue.taken_up(1'000'000);  // more than there are: no more than before
  EXPECT_EQ(sent(), drop_queue::most_under_way);
}

std::int64_t one() { return 1; }

std::vector<rref<std::int64_t>> made(simulation& lab, const node& here, int count) {
  std::vector<rref<std::int64_t>> out;
  for (int i = 0; i < count; ++i) out.push_back(here.remote<&one>(1));
  EXPECT_TRUE(lab.wait_until([&] { return here.debug_info().calls_in_flight == 0; }, 1min));
  return out;
}

// Nothing else runs between two waits in a simulation, so these numbers are exact.
TEST(rref_drops, of_many_go_in_few_messages) {
  constexpr int count = 20'000;
  simulation lab({.seed = 5});
  const auto nodes = lab.start(2);
  auto references = made(lab, nodes[0], count);
  const auto sent = [&] { return nodes[0].debug_info().traffic.messages_sent; };
  const auto& table = nodes[0].core().actors().rrefs();
  EXPECT_EQ(nodes[1].debug_info().owner_rrefs, static_cast<std::size_t>(count));
  const auto before = sent();
  references.clear();
  EXPECT_EQ(sent() - before, drop_queue::most_under_way);
  EXPECT_EQ(table.count().drops, 1u) << "they were made one after the other, and dropped so";
  EXPECT_TRUE(lab.wait_until([&] { return nodes[1].debug_info().owner_rrefs == 0; }, 1min));
  EXPECT_EQ(table.count().drops, 0u);
  EXPECT_LE(sent() - before, drop_queue::most_under_way + count / drop_queue::most_uses + 16);
}

TEST(rref_drops, of_a_lost_owner_are_forgotten) {
  simulation lab({.seed = 6});
  const auto nodes = lab.start(2);
  auto references = made(lab, nodes[0], 1'000);
  const auto& table = nodes[0].core().actors().rrefs();
  references.resize(500);
  EXPECT_NE(table.count().drops, 0u);
  lab.crash(1);
  EXPECT_TRUE(lab.wait_until([&] { return nodes[0].world_size() == 1; }, 1min));
  references.clear();
  EXPECT_TRUE(lab.wait_until([&] { return table.count().drops == 0; }, 1min));
}

}  // namespace

}  // namespace troupe::test
