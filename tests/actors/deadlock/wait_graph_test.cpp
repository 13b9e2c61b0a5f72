// Which handlers wait for which, and which of them can never go on.

#include "troupe/actors/deadlock/wait_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace troupe::deadlock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

std::string name_of(transport::rank_t rank) { return "node" + std::to_string(rank); }

incarnation node(transport::rank_t rank, std::uint64_t number = 1) { return {rank, number}; }

question asks(const incarnation& asker, const incarnation& at, std::uint64_t request) {
  return {asker, at, request, 0};
}
question asks(transport::rank_t asker, transport::rank_t at, std::uint64_t request) {
  return asks(node(asker), node(at), request);
}

held_handler waits(std::uint64_t number, const question& what) {
  return {number, what, "f" + std::to_string(number)};
}

// Answers what the graph asks, out of what a test has set, until it asks no more.
class job {
public:
  void hold(const incarnation& at, const held_handler& one) { held_[at].push_back(one); }
  void hold(transport::rank_t rank, const held_handler& one) { hold(node(rank), one); }
  void set_outlook(const question& what, const outlook& of) { outlooks_[what] = of; }
  void limit(transport::rank_t rank, std::uint32_t threads) { limits_[node(rank)] = threads; }

  wait_graph look_from(transport::rank_t rank) const {
    wait_graph out;
    if (const auto mine = held_.find(node(rank)); mine != held_.end())
      for (const auto& one : mine->second) out.add(node(rank), one);
    for (auto open = out.take_open_questions(); !open.empty(); open = out.take_open_questions())
      for (const auto& [at, asked] : open) out.add(at, asked, answer(at, asked));
    return out;
  }

private:
  report answer(const incarnation& at, const std::vector<question>& asked) const {
    EXPECT_LE(asked.size(), most_in_message);
    report out;
    for (const auto& one : asked) {
      const auto found = outlooks_.find(one);
      out.outlooks.push_back(found == outlooks_.end() ? outlook{} : found->second);
    }
    const auto all = held_.find(at);
    if (all != held_.end()) out.handlers = all->second;
    const auto most = limits_.find(at);
    if (most != limits_.end()) out.max_threads = most->second;
    return out;
  }

  std::map<incarnation, std::vector<held_handler>> held_;
  std::map<question, outlook> outlooks_;
  std::map<incarnation, std::uint32_t> limits_;
};

TEST(wait_graph, a_chain_to_what_may_happen_is_free) {
  job all;
  all.hold(0, waits(1, asks(0, 1, 10)));
  all.hold(1, waits(2, asks(1, 2, 20)));
  all.set_outlook(asks(0, 1, 10), {prospect::handler, 2});
  EXPECT_THAT(all.look_from(0).find_stuck(), IsEmpty());
}

TEST(wait_graph, a_cycle_is_stuck_and_so_is_who_waits_for_it) {
  job all;
  all.hold(0, waits(1, asks(0, 1, 10)));
  all.hold(1, waits(2, asks(1, 0, 20)));
  all.hold(1, waits(3, asks(1, 0, 20)));
  all.hold(2, waits(4, asks(2, 0, 30)));
  all.set_outlook(asks(0, 1, 10), {prospect::handler, 2});
  all.set_outlook(asks(1, 0, 20), {prospect::handler, 1});
  all.set_outlook(asks(2, 0, 30), {prospect::handler, 1});
  auto graph = all.look_from(2);
  EXPECT_THAT(graph.find_stuck(),
              ElementsAre(Pair(node(0), ElementsAre(1)), Pair(node(1), ElementsAre(2, 3)),
                          Pair(node(2), ElementsAre(4))));
  const auto how = graph.remedies(name_of);
  ASSERT_EQ(how.size(), 1u);
  EXPECT_EQ(how[0].node, node(0));
  EXPECT_EQ(how[0].wait, 1u);
  EXPECT_THAT(how[0].text,
              HasSubstr("f1 on node0 waits for f2 on node1, which waits for the first"));
}

TEST(wait_graph, a_full_node_is_stuck_when_all_its_handlers_are) {
  job all;
  all.limit(0, 2);
  all.hold(0, waits(1, asks(0, 1, 10)));
  all.hold(0, waits(2, asks(0, 1, 11)));
  all.hold(1, waits(3, asks(1, 0, 20)));
  all.hold(1, waits(4, asks(1, 0, 21)));
  all.set_outlook(asks(0, 1, 10), {prospect::handler, 3});
  all.set_outlook(asks(0, 1, 11), {prospect::handler, 4});
  all.set_outlook(asks(1, 0, 20), {prospect::handler, 2});
  all.set_outlook(asks(1, 0, 21), {prospect::thread, 0});
  auto graph = all.look_from(0);
  EXPECT_EQ(graph.find_stuck().size(), 2u);
  const auto how = graph.remedies(name_of);
  ASSERT_EQ(how.size(), 1u);
  EXPECT_EQ(how[0].node, node(0));
  EXPECT_THAT(how[0].calls, ElementsAre(asks(1, 0, 21)));
  EXPECT_THAT(how[0].text, HasSubstr("max_threads is 2"));
  EXPECT_THAT(how[0].text, HasSubstr("f4 on node1, for which f2 on node0 waits, for which f3"));

  // One of them may go on: its thread takes the call.
  all.set_outlook(asks(0, 1, 11), {prospect::open, 0});
  all.set_outlook(asks(1, 0, 20), {prospect::handler, 1});
  auto free = all.look_from(0);
  const auto stuck = free.find_stuck();
  EXPECT_THAT(stuck, ElementsAre(Pair(node(0), ElementsAre(1)), Pair(node(1), ElementsAre(3))));
}

TEST(wait_graph, a_node_with_a_thread_that_is_not_known_is_free) {
  job all;
  all.limit(0, 2);
  all.hold(0, waits(1, asks(0, 1, 10)));
  all.hold(1, waits(3, asks(1, 0, 20)));
  all.set_outlook(asks(0, 1, 10), {prospect::handler, 3});
  all.set_outlook(asks(1, 0, 20), {prospect::thread, 0});
  EXPECT_THAT(all.look_from(0).find_stuck(), IsEmpty());
}

TEST(wait_graph, an_answer_that_names_a_handler_that_is_gone_frees) {
  job all;
  all.hold(0, waits(1, asks(0, 1, 10)));
  all.set_outlook(asks(0, 1, 10), {prospect::handler, 99});
  EXPECT_THAT(all.look_from(0).find_stuck(), IsEmpty());
}

// The one that was there before has numbered its requests and waits the same.
TEST(wait_graph, incarnations_of_a_node_are_kept_apart) {
  job all;
  all.hold(0, waits(1, asks(node(0), node(1, 2), 10)));
  all.set_outlook(asks(node(0), node(1, 2), 10), {prospect::handler, 1});
  all.hold(node(1, 2), waits(1, asks(node(1, 2), node(0), 20)));
  all.set_outlook(asks(node(1, 1), node(0), 20), {prospect::handler, 1});
  EXPECT_THAT(all.look_from(0).find_stuck(), IsEmpty());
  all.set_outlook(asks(node(1, 2), node(0), 20), {prospect::handler, 1});
  EXPECT_THAT(all.look_from(0).find_stuck(),
              ElementsAre(Pair(node(0), ElementsAre(1)), Pair(node(1, 2), ElementsAre(1))));

  // What the handler of the one waits for is not the handler of the other.
  job past;
  past.hold(0, waits(1, asks(node(0), node(1, 1), 10)));
  past.set_outlook(asks(node(0), node(1, 1), 10), {prospect::handler, 1});
  past.hold(node(1, 2), waits(1, asks(node(1, 2), node(0), 20)));
  past.set_outlook(asks(node(1, 2), node(0), 20), {prospect::handler, 1});
  EXPECT_THAT(past.look_from(0).find_stuck(), IsEmpty());
}

TEST(wait_graph, asks_no_more_at_once_than_a_message_may_list_and_the_rest_later) {
  constexpr std::uint64_t many = 3 * most_in_message + 1;
  wait_graph graph;
  for (std::uint64_t i = 1; i <= many; ++i) graph.add(node(0), waits(i, asks(0, 1, i)));
  std::set<question> asked;
  std::size_t messages = 0;
  for (auto open = graph.take_open_questions(); !open.empty(); open = graph.take_open_questions()) {
    ASSERT_EQ(open.size(), 1u);
    const auto& some = open.at(node(1));
    EXPECT_LE(some.size(), most_in_message);
    asked.insert(some.begin(), some.end());
    ++messages;
  }
  EXPECT_EQ(asked.size(), many);
  EXPECT_EQ(messages, 4u);
}

// Part of them would count as free: a handler does whose question has not been asked.
TEST(wait_graph, a_cycle_of_more_handlers_than_a_message_may_list_is_stuck) {
  constexpr std::uint64_t many = 2 * most_in_message + 1;
  job all;
  for (std::uint64_t i = 1; i <= many; ++i) {
    all.hold(0, waits(i, asks(0, 1, i)));
    all.hold(1, waits(i, asks(1, 0, i)));
    all.set_outlook(asks(0, 1, i), {prospect::handler, i});
    all.set_outlook(asks(1, 0, i), {prospect::handler, i % many + 1});
  }
  auto graph = all.look_from(0);
  const auto stuck = graph.find_stuck();
  ASSERT_EQ(stuck.size(), 2u);
  EXPECT_EQ(stuck.at(node(0)).size(), many);
  EXPECT_EQ(stuck.at(node(1)).size(), many);
  EXPECT_EQ(graph.remedies(name_of).size(), 1u);
}

// Against the definition, read backwards: handlers go on until none can any more.
TEST(wait_graph, random_jobs_are_judged_as_by_running_them) {
  std::mt19937 random(1);
  int with_stuck = 0;
  for (int round = 0; round < 3'000; ++round) {
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const std::size_t nodes = 1 + below(3), each = 1 + below(4);
    job all;
    struct state {
      transport::rank_t node;
      std::uint64_t number;
      prospect what;
      std::size_t other;  // a handler, or a node
      bool goes_on = false;
    };
    std::vector<state> handlers;
    for (std::size_t n = 0; n < nodes; ++n) {
      all.limit(static_cast<transport::rank_t>(n), static_cast<std::uint32_t>(each));
      for (std::size_t i = 0; i < each; ++i)
        handlers.push_back(
            {static_cast<transport::rank_t>(n), handlers.size() + 1, prospect::open, 0});
    }
    for (auto& one : handlers) {
      const auto kind = below(10);
      one.what = kind == 0 ? prospect::open : kind < 8 ? prospect::handler : prospect::thread;
      one.other = below(one.what == prospect::thread ? nodes : handlers.size());
      const auto at =
          one.what == prospect::handler
              ? handlers[one.other].node
              : static_cast<transport::rank_t>(one.what == prospect::thread ? one.other : 0);
      const auto what = asks(one.node, at, one.number);
      all.hold(one.node, waits(one.number, what));
      all.set_outlook(what,
                      {one.what, one.what == prospect::handler ? handlers[one.other].number : 0});
    }
    for (bool more = true; more;) {
      more = false;
      for (auto& one : handlers) {
        if (one.goes_on) continue;
        if (one.what == prospect::open)
          one.goes_on = true;
        else if (one.what == prospect::handler)
          one.goes_on = handlers[one.other].goes_on;
        else
          for (const auto& held : handlers)
            if (held.node == one.other && held.goes_on) one.goes_on = true;
        more = more || one.goes_on;
      }
    }
    wait_graph graph = all.look_from(0);
    std::set<std::uint64_t> stuck;
    for (const auto& [at, numbers] : graph.find_stuck())
      stuck.insert(numbers.begin(), numbers.end());
    for (const auto& one : handlers) {
      if (stuck.count(one.number) == 0 && one.node != 0) continue;
      EXPECT_EQ(stuck.count(one.number) == 0, one.goes_on) << "round " << round;
    }
    EXPECT_EQ(graph.remedies(name_of).empty(), stuck.empty());
    with_stuck += stuck.empty() ? 0 : 1;
  }
  EXPECT_GT(with_stuck, 100);
}

}  // namespace
}  // namespace troupe::deadlock
