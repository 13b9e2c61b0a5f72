// Messages about dropped references, when not all of them can be sent: rule 11 in rref_table.hpp.
#include "troupe/actors/rref/drops.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "troupe/actors/messaging/outbox.hpp"
#include "troupe/actors/rref/rref_message.hpp"
#include "troupe/messages/codec/archive.hpp"

namespace troupe::detail {
namespace {

// The messages from one node to another.
struct way {
  bool works = true;
  int tries = 0;
  std::deque<std::vector<std::byte>> messages;
  std::function<void()> meanwhile;  // what others do while a message is being sent

  drops::sender sender() {
    return [this](peer&, message_builder& message) {
      ++tries;
      if (meanwhile) std::exchange(meanwhile, nullptr)();
      if (works) messages.push_back(message.body().bytes());
      return works;
    };
  }
};

// A node that has references, and the owner of their values.
class rref_drop_messages : public testing::Test {
protected:
  peer& add(std::uint32_t rank) {
    return peers.add(
        std::make_unique<peer>(worker_info{"w" + std::to_string(rank), rank}, 7, caf::node_id()));
  }

  // Of values that do not follow one another, so each is an entry.
  void drop(int count) {
    for (; count > 0; --count) here.add(owner, {0, 1, 7, 7, last += 2}, 0);
  }

  void arrive() {
    for (;;) {
      if (!to_owner.messages.empty()) {
        const auto message = std::move(to_owner.messages.front());
        to_owner.messages.pop_front();
        decoder in(message, nullptr, nullptr);
        ASSERT_EQ(in.get<rref_message>(), rref_message::drop);
        there.retry(holder);
        there.take(in, holder, [&](const rref_id& id, std::uint64_t) {
          EXPECT_TRUE(ended.insert(id.number).second) << id;
        });
        in.expect_end();
      } else if (!to_holder.messages.empty()) {
        const auto message = std::move(to_holder.messages.front());
        to_holder.messages.pop_front();
        decoder in(message, nullptr, nullptr);
        ASSERT_EQ(in.get<rref_message>(), rref_message::dropped);
        here.retry(owner);
        here.acknowledged(owner, in.get<std::uint32_t>());
        in.expect_end();
      } else {
        return;
      }
    }
  }

  peer_table peers;
  peer& holder = add(0);
  peer& owner = add(1);
  way to_owner, to_holder;
  drops here{0, to_owner.sender()};
  drops there{1, to_holder.sender()};
  std::uint64_t last = 0;
  std::set<std::uint64_t> ended;  // as the owner knows
};

constexpr int many = 10 * drop_queue::most_under_way;

TEST_F(rref_drop_messages, that_could_not_be_sent_go_with_the_next) {
  to_owner.works = false;
  drop(many);
  EXPECT_LE(to_owner.tries, many) << "each is an occasion, and there is no other";
  to_owner.works = true;
  drop(1);
  arrive();
  EXPECT_EQ(ended.size(), static_cast<std::size_t>(many + 1));
  EXPECT_EQ(here.waiting(), 0u);
}

TEST_F(rref_drop_messages, that_could_not_be_sent_go_when_a_message_of_the_owner_comes) {
  auto& other = add(2);
  to_owner.works = false;
  drop(many);
  to_owner.works = true;
  here.retry(other);
  arrive();
  EXPECT_EQ(ended.size(), 0u);
  here.retry(owner);
  arrive();
  EXPECT_EQ(ended.size(), static_cast<std::size_t>(many));
  EXPECT_EQ(here.waiting(), 0u);
  const auto tries = to_owner.tries;
  here.retry(owner);
  EXPECT_EQ(to_owner.tries, tries) << "there is nothing left to send";
}

// The holder has as many messages under way as it may, and waits for an acknowledgement.
TEST_F(rref_drop_messages, go_on_when_the_owner_could_not_send_its_acknowledgement) {
  to_holder.works = false;
  drop(many);
  arrive();
  EXPECT_EQ(ended.size(), std::size_t{drop_queue::most_under_way});
  EXPECT_GT(to_holder.tries, 0);
  const auto tries = to_holder.tries;
  there.retry(holder);
  EXPECT_EQ(to_holder.tries, tries + 1);
  to_holder.works = true;
  there.retry(holder);
  arrive();
  EXPECT_EQ(ended.size(), static_cast<std::size_t>(many));
  EXPECT_EQ(here.waiting(), 0u);
}

TEST_F(rref_drop_messages, that_come_while_a_message_is_sent_go_after_it) {
  for (const bool works : {true, false}) {
    to_owner.works = works;
    to_owner.meanwhile = [&] { drop(10); };
    drop(1);
    EXPECT_EQ(here.waiting(), works ? 0u : 11u);
  }
  to_owner.works = true;
  here.retry(owner);
  arrive();
  EXPECT_EQ(ended.size(), 22u);
}

TEST_F(rref_drop_messages, of_a_lost_owner_are_forgotten) {
  const auto lose = [&] {
    peers.fence(owner, "of the test");
    peers.evict(owner);
    here.evict(owner);
  };
  to_owner.works = false;
  drop(many);
  EXPECT_NE(here.waiting(), 0u);
  to_owner.meanwhile = lose;  // as a message is being sent
  drop(1);
  EXPECT_EQ(here.waiting(), 0u);
  to_owner.tries = 0;
  drop(1);
  here.retry(owner);
  EXPECT_EQ(here.waiting(), 0u);
  EXPECT_EQ(to_owner.tries, 0);
}

TEST_F(rref_drop_messages, of_a_node_that_has_ended_are_forgotten) {
  to_owner.works = false;
  to_owner.meanwhile = [&] { here.close(); };
  drop(1);
  drop(many);
  here.retry(owner);
  EXPECT_EQ(here.waiting(), 0u);
  EXPECT_EQ(to_owner.tries, 1);
}

TEST_F(rref_drop_messages, of_many_threads_all_arrive) {
  constexpr int threads = 4, each = 5'000;
  std::atomic<std::uint64_t> tries = 0, next = 0;
  std::mutex mutex;
  std::deque<std::vector<std::byte>> messages;
  drops ours(0, [&](peer&, message_builder& message) {
    if (++tries % 5 == 0) return false;
    const std::lock_guard lock(mutex);
    messages.push_back(message.body().bytes());
    return true;
  });
  const auto add = [&] {
    for (int i = 0; i < each; ++i) ours.add(owner, {0, 1, 7, 7, next += 2}, 0);
  };
  const auto arrive_there = [&] {
    std::deque<std::vector<std::byte>> come;
    {
      const std::lock_guard lock(mutex);
      come.swap(messages);
    }
    for (const auto& message : come) {
      decoder in(message, nullptr, nullptr);
      (void)in.get<rref_message>();
      there.take(in, holder, [&](const rref_id& id, std::uint64_t) {
        EXPECT_TRUE(ended.insert(id.number).second) << id;
      });
    }
    ours.retry(owner);
    ours.acknowledged(owner, static_cast<std::uint32_t>(come.size()));
  };
  {
    std::atomic<int> left = threads;
    std::vector<std::jthread> running;
    for (int i = 0; i < threads; ++i)
      running.emplace_back([&] {
        add();
        --left;
      });
    while (left > 0) arrive_there();
  }
  for (int i = 0; i < 1'000; ++i) arrive_there();
  EXPECT_EQ(ended.size(), std::size_t{threads} * each);
  EXPECT_EQ(ours.waiting(), 0u);
}

}  // namespace
}  // namespace troupe::detail
