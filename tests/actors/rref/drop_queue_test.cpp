// References that go by the thousand: how many messages report it, and what waits meanwhile.
#include "troupe/actors/rref/drop_queue.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/actors/node/job.hpp"
#include "troupe/actors/messaging/outbox.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/rref/rref_table.hpp"
#include "troupe/actors/simulation/simulation.hpp"
#include "troupe/messages/codec/archive.hpp"

namespace troupe::test {

namespace {

using detail::drop_queue;

rref_id numbered(std::uint64_t number, std::uint32_t creator = 0) {
  return {creator, 1, 7, 9, number};
}

// The message that is being sent from now on.
drop_queue::message begin(drop_queue& queue) {
  encoder out(nullptr, nullptr);
  queue.write(out);
  decoder in(out.bytes(), nullptr, nullptr);
  auto message = in.get<drop_queue::message>();
  in.expect_end();
  EXPECT_FALSE(message.empty());
  return message;
}

// A message that has been sent; an empty one if none may be.
drop_queue::message take(drop_queue& queue) {
  if (!queue.ready()) return {};
  auto message = begin(queue);
  queue.sent();
  return message;
}

// All messages, as the owner would get them: it acknowledges what is under way.
std::vector<drop_queue::message> all_of(drop_queue& queue) {
  std::vector<drop_queue::message> out;
  for (;;) {
    auto some = take(queue);
    if (!some.empty()) {
      out.push_back(std::move(some));
    } else {
      if (queue.waiting() == 0) return out;
      queue.acknowledged(drop_queue::acknowledged_at_once);
    }
  }
}

TEST(drop_queue, reports_a_million_in_a_row_in_a_few_messages) {
  constexpr std::uint64_t count = 1'000'000;
  drop_queue queue;
  std::vector<drop_queue::message> sent;
  for (std::uint64_t i = 1; i <= count; ++i) {
    queue.add(numbered(i), 0);
    if (auto some = take(queue); !some.empty()) sent.push_back(std::move(some));
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

TEST(drop_queue, reports_every_use_once_in_any_order) {
  std::mt19937_64 random(3);
  drop_queue queue;
  std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> expected, reported;
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
        EXPECT_TRUE(reported.emplace(some.creator, some.first + i, some.use).second)
            << some.first + i;
  }
  EXPECT_EQ(reported, expected);
}

TEST(drop_queue, sends_no_more_than_the_owner_takes_up) {
  drop_queue queue;
  std::uint64_t number = 0;
  const auto sent = [&] {
    std::uint32_t messages = 0;
    for (int i = 0; i < 1'000; ++i) {
      queue.add(numbered(number += 2), 0);
      if (!take(queue).empty()) ++messages;
    }
    return messages;
  };
  EXPECT_EQ(sent(), drop_queue::most_under_way);
  EXPECT_EQ(sent(), 0u);
  queue.acknowledged(2);
  EXPECT_EQ(sent(), 2u);
  queue.acknowledged(1'000'000);  // more than there are: no more than before
  EXPECT_EQ(sent(), drop_queue::most_under_way);
}

TEST(drop_queue, keeps_what_could_not_be_sent) {
  drop_queue queue;
  for (std::uint64_t number = 1; number <= 3; ++number) queue.add(numbered(number * 2), 0);
  const auto first = begin(queue);
  queue.not_sent();
  EXPECT_EQ(queue.waiting(), 3u);
  for (std::uint32_t i = 0; i < 2 * drop_queue::most_under_way; ++i) {
    ASSERT_TRUE(queue.ready()) << "nothing is under way";
    EXPECT_EQ(begin(queue).size(), first.size());
    queue.not_sent();
  }
  EXPECT_EQ(take(queue).size(), 3u);
  EXPECT_EQ(queue.waiting(), 0u);
  // And those that go count as before.
  for (std::uint32_t i = 1; i < drop_queue::most_under_way; ++i) {
    queue.add(numbered(i), 0);
    EXPECT_EQ(take(queue).size(), 1u);
  }
  queue.add(numbered(1'000), 0);
  EXPECT_FALSE(queue.ready());
}

TEST(drop_queue, lets_single_uses_pass_while_nothing_waits) {
  encoder out(nullptr, nullptr);
  drop_queue::write_one(out, numbered(5, 3), 2);
  decoder in(out.bytes(), nullptr, nullptr);
  const auto message = in.get<drop_queue::message>();
  in.expect_end();
  ASSERT_EQ(message.size(), 1u);
  EXPECT_EQ(message[0].creator, 3u);
  EXPECT_EQ(message[0].creator_incarnation, 7u);
  EXPECT_EQ(message[0].first, 5u);
  EXPECT_EQ(message[0].count, 1u);
  EXPECT_EQ(message[0].use, 2u);

  drop_queue queue;
  for (std::uint32_t i = 0; i < 2 * drop_queue::most_under_way; ++i) {
    ASSERT_TRUE(queue.pass());
    queue.take_back(numbered(i), 0);
    EXPECT_FALSE(queue.pass()) << "the one before has yet to go";
    EXPECT_EQ(take(queue).size(), 1u);
    queue.acknowledged(1);
  }
  for (std::uint32_t i = 0; i < drop_queue::most_under_way; ++i) EXPECT_TRUE(queue.pass());
  EXPECT_FALSE(queue.pass());
  queue.take_back(numbered(1), 0);
  EXPECT_EQ(take(queue).size(), 1u);
  EXPECT_FALSE(queue.pass());
}

// Uses end while a message is being sent, which may fail or come too late.
TEST(drop_queue, reports_every_use_once_whatever_becomes_of_messages) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    std::mt19937_64 random(seed);
    drop_queue queue;
    std::vector<bool> reported(2'000'000);
    std::size_t added = 0, taken = 0;
    std::uint64_t low = 1'000'000, high = low;
    const auto take_in = [&](const drop_queue::message& message) {
      for (const auto& some : message)
        for (std::uint32_t i = 0; i < some.count; ++i, ++taken) {
          ASSERT_FALSE(reported.at(some.first + i)) << "seed " << seed;
          reported[some.first + i] = true;
        }
    };
    const auto add = [&] {
      const bool up = random() % 2 == 0;
      for (auto many = random() % (drop_queue::most_uses * 3 / 2); many > 0; --many, ++added)
        queue.add(numbered(up ? high++ : --low), 0);
      if (random() % 3 == 0) ++high;  // a gap
    };
    for (int i = 0; i < 80; ++i) {
      add();
      if (!queue.ready()) {
        queue.acknowledged(drop_queue::acknowledged_at_once);
        continue;
      }
      const auto message = begin(queue);
      EXPECT_FALSE(queue.ready()) << "one at a time";
      add();
      if (random() % 3 == 0) {
        queue.not_sent();
        continue;
      }
      queue.sent();
      take_in(message);
    }
    for (const auto& message : all_of(queue)) take_in(message);
    EXPECT_EQ(taken, added) << "seed " << seed;
  }
}

std::int64_t one() { return 1; }

std::vector<rref<std::int64_t>> made(simulation& cluster, const node& here, int count) {
  std::vector<rref<std::int64_t>> out;
  for (int i = 0; i < count; ++i) out.push_back(here.remote<&one>(1));
  EXPECT_TRUE(cluster.wait_until([&] { return here.debug_info().calls_in_flight == 0; }, 1min));
  return out;
}

// Nothing else runs between two waits in a simulation, so these numbers are exact.
TEST(rref_drops, of_many_go_in_few_messages) {
  constexpr int count = 20'000;
  simulation cluster({.seed = 5});
  const auto nodes = cluster.start(2);
  auto references = made(cluster, nodes[0], count);
  const auto sent = [&] { return nodes[0].debug_info().traffic.messages_sent; };
  const auto& table = nodes[0].core().rrefs();
  EXPECT_EQ(nodes[1].debug_info().owner_rrefs, static_cast<std::size_t>(count));
  const auto before = sent();
  references.clear();
  EXPECT_EQ(sent() - before, drop_queue::most_under_way);
  EXPECT_EQ(table.count().drops, 1u) << "they were made one after the other, and dropped so";
  EXPECT_TRUE(cluster.wait_until([&] { return nodes[1].debug_info().owner_rrefs == 0; }, 1min));
  EXPECT_EQ(table.count().drops, 0u);
  EXPECT_LE(sent() - before, drop_queue::most_under_way + count / drop_queue::most_uses + 16);
}

TEST(rref_drops, of_a_lost_owner_are_forgotten) {
  simulation cluster({.seed = 6});
  const auto nodes = cluster.start(2);
  auto references = made(cluster, nodes[0], 1'000);
  const auto& table = nodes[0].core().rrefs();
  references.resize(500);
  EXPECT_NE(table.count().drops, 0u);
  cluster.crash(1);
  EXPECT_TRUE(cluster.wait_until([&] { return nodes[0].world_size() == 1; }, 1min));
  references.clear();
  EXPECT_TRUE(cluster.wait_until([&] { return table.count().drops == 0; }, 1min));
}

}  // namespace

}  // namespace troupe::test
