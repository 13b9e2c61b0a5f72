// How nodes end: all together, late, at once, by being dropped; and what the others notice.
#include <caf/send.hpp>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"
#include "troupe/actors/remote/actor_system_host.hpp"

namespace troupe::test {
namespace {

class shutting_down : public on_networks {};
TROUPE_ON_NETWORKS(shutting_down);

int sum(int a, int b) { return a + b; }
int pass_the_door(int x) {
  shared_door::current()->pass();
  return x;
}

TEST_P(shutting_down, waits_for_the_last) {
  auto nodes = start({"a", "b", "c"});
  std::atomic<int> returned{0};
  std::vector<node> early{nodes[0], nodes[1]};
  auto going = std::async(std::launch::async, [&] {
    all_at_once(early, [&](node& n) {
      n.shutdown(true, time_limit);
      ++returned;
    });
  });
  // They serve the late one until it comes.
  for (int i = 0; i < 200; ++i) EXPECT_EQ(nodes[2].rpc_sync<&sum>(i % 2, i, 1), i + 1);
  EXPECT_EQ(returned, 0);
  nodes[2].shutdown(true, time_limit);
  going.get();
  EXPECT_EQ(returned, 2);
}

TEST_P(shutting_down, lets_calls_under_way_finish) {
  auto nodes = start({"a", "b", "c"});
  const shared_door door;
  std::vector<future<int>> calls;
  for (int i = 0; i < 9; ++i) calls.push_back(nodes[i % 3].rpc_async<&pass_the_door>(i / 3, i));
  ASSERT_TRUE(door->wait_for(9));
  auto going = std::async(std::launch::async, [&] { shut_down(nodes); });
  EXPECT_EQ(going.wait_for(20ms), std::future_status::timeout);
  door->open();
  going.get();
  for (int i = 0; i < 9; ++i) EXPECT_EQ(calls[i].get(), i);
}

TEST_P(shutting_down, lets_messages_arrive) {
  auto nodes = start({"a", "b"});
  auto seen = std::make_shared<std::atomic<int>>(0);
  using sink_of_notes = actor<accepts<note>>;
  auto taker = [](sink_of_notes::pointer,
                  std::shared_ptr<std::atomic<int>> seen) -> sink_of_notes::behavior_type {
    return {[seen](const note&) { ++*seen; }};
  };
  auto target = nodes[1].spawn(taker, seen);
  // By way of a function, so that node a gets a handle.
  auto elsewhere = nodes[0].spawn_on<count_from>("b", 0);
  for (int i = 0; i < 500; ++i) {
    caf::anon_send(elsewhere, note{1});
    caf::anon_send(target, note{1});
  }
  auto all = request(elsewhere, total{});
  shut_down(nodes);
  EXPECT_EQ(all.get(), 500);
  EXPECT_EQ(*seen, 500);
}

TEST_P(shutting_down, gives_up_at_its_limit_and_ends_all_the_same) {
  auto nodes = start({"a", "b", "c"});
  auto why = fault_of<rpc_timeout>([&] { nodes[0].shutdown(true, 30ms); });
  EXPECT_THAT(why.text, testing::HasSubstr("limit of the shutdown"));
  EXPECT_THAT(why.text, testing::HasSubstr("1"));
  EXPECT_THAT(why.text, testing::HasSubstr("2"));
  EXPECT_THROW(nodes[0].rpc_sync<&sum>("b", 1, 2), not_initialized);
  // It led the job, which ends with it.
  EXPECT_TRUE(eventually([&] { return !nodes[1].in_job() && !nodes[2].in_job(); }));
  why = fault_of<peer_lost>([&] { nodes[1].rpc_sync<&sum>("c", 1, 2); });
  EXPECT_THAT(why.text, testing::HasSubstr("which led the job"));
  EXPECT_EQ(why.node, "a");
}

TEST_P(shutting_down, leaves_the_others_alone_when_one_gives_up) {
  auto nodes = start({"a", "b", "c"});
  fault_of<rpc_timeout>([&] { nodes[2].shutdown(true, 30ms); });
  EXPECT_TRUE(eventually([&] { return nodes[1].world_size() == 2; }));
  EXPECT_EQ(nodes[1].rpc_sync<&sum>("a", 1, 2), 3);
  EXPECT_THROW(nodes[1].rpc_sync<&sum>("c", 1, 2), peer_lost);
}

TEST_P(shutting_down, at_once_fails_calls_here_and_there) {
  auto nodes = start({"a", "b", "c"});
  const shared_door door;
  auto to_b = nodes[0].rpc_async<&pass_the_door>("b", 1);
  auto between = nodes[2].rpc_async<&pass_the_door>("a", 3);
  ASSERT_TRUE(door->wait_for(2));
  auto from_b = nodes[1].rpc_async<&pass_the_door>("a", 2);
  ASSERT_TRUE(door->wait_for(3));
  auto ending = std::async(std::launch::async, [&] { nodes[1].shutdown(false); });
  EXPECT_THROW(from_b.get_for(time_limit), not_initialized);
  door->open();
  ending.get();
  try {
    EXPECT_EQ(to_b.get_for(time_limit), 1);  // it may just have answered
  } catch (const peer_lost& e) {
    EXPECT_EQ(e.node(), "b");
  }
  EXPECT_EQ(between.get_for(time_limit), 3);
  EXPECT_TRUE(eventually([&] {
    try {
      nodes[0].rpc_sync<&sum>("b", 1, 2);
    } catch (const peer_lost& e) {
      return e.node() == "b";
    }
    return false;
  }));
  EXPECT_EQ(nodes[0].rpc_sync<&sum>("c", 1, 2), 3);
}

using forgetful = actor<answers<total, int>>;
forgetful::behavior_type never_answer(forgetful::pointer self) {
  auto kept = std::make_shared<std::vector<caf::typed_response_promise<int>>>();
  return {[=](const total&) {
    kept->push_back(self->make_response_promise<int>());
    return kept->back();
  }};
}

TEST_P(shutting_down, leaves_handles_that_report_it) {
  auto nodes = start({"a", "b"});
  const auto here = nodes[0].spawn(count_from, 0);
  const auto there = nodes[0].spawn_on<count_from>("b", 0);
  shut_down(nodes);
  nodes.clear();
  EXPECT_THROW(request(here, total{}).get_for(time_limit), not_initialized);
  EXPECT_THROW(request(there, total{}).get_for(time_limit), not_initialized);
}

TEST_P(shutting_down, at_once_names_the_lost_node_to_those_who_wait) {
  auto nodes = start({"a", "b", "c"});
  auto f = nodes[0].spawn_on<never_answer>("b");
  std::vector<future<int>> waiting;
  for (int i = 0; i < 50; ++i) waiting.push_back(request(f, total{}));
  nodes[0].rpc_sync<&sum>("b", 1, 2);
  nodes[1].shutdown(false);
  for (auto& w : waiting) {
    ASSERT_TRUE(w.wait_for(time_limit));
    EXPECT_THROW(w.get(), error);
  }
  auto late = request(f, total{});
  ASSERT_TRUE(late.wait_for(time_limit));
  EXPECT_EQ(fault_of<peer_lost>([&] { late.get(); }).node, "b");
}

TEST_P(shutting_down, happens_when_the_last_copy_goes) {
  auto nodes = start({"a", "b"});
  nodes.pop_back();
  EXPECT_TRUE(eventually([&] {
    try {
      nodes[0].rpc_sync<&sum>("b", 1, 2);
    } catch (const peer_lost& e) {
      return e.node() == "b";
    }
    return false;
  }));
}

std::optional<node> last_copy;
void drop_the_last_copy() {
  last_copy.reset();
  EXPECT_TRUE(eventually([] {
    try {
      this_node().get_worker_info();
      return false;
    } catch (const not_initialized&) {
      return true;
    }
  }));
}

using dropper = actor<accepts<note>>;
dropper::behavior_type drop_on_note(dropper::pointer) {
  return {[](const note&) { drop_the_last_copy(); }};
}

bool is_lost(const node& from, const std::string& name) {
  return eventually([&] {
    try {
      from.rpc_sync<&sum>(name, 1, 2);
    } catch (const peer_lost& e) {
      return e.node() == name;
    }
    return false;
  });
}

TEST_P(shutting_down, happens_when_the_last_copy_goes_in_a_handler) {
  auto nodes = start({"a", "b", "c", "d"});
  auto leave = [&] {
    last_copy = std::move(nodes.back());
    nodes.pop_back();
  };
  leave();
  auto call = nodes[0].rpc_async<&drop_the_last_copy>("d");
  EXPECT_TRUE(is_lost(nodes[0], "d"));
  EXPECT_TRUE(call.wait_for(time_limit));

  auto actor = nodes[2].spawn(drop_on_note);
  leave();
  caf::anon_send(actor, note{});
  EXPECT_TRUE(is_lost(nodes[0], "c"));

  const shared_door door;
  auto done = nodes[1].rpc_async<&pass_the_door>("b", 1);
  done.then([copy = std::make_shared<node>(nodes[1])](int) {});
  nodes.pop_back();
  door->open();
  EXPECT_TRUE(is_lost(nodes[0], "b"));
}

TEST_P(shutting_down, leaves_clean_errors_behind) {
  auto nodes = start({"a", "b"});
  auto mine = nodes[0].spawn(count_from, 0);
  auto theirs = nodes[0].spawn_on<count_from>("b", 0);
  shut_down(nodes);
  const auto& a = nodes[0];
  EXPECT_THROW(a.rpc_sync<&sum>("b", 1, 2), not_initialized);
  EXPECT_THROW(a.rpc_async<&sum>("a", 1, 2), not_initialized);
  EXPECT_THROW(a.spawn(count_from, 1), not_initialized);
  EXPECT_THROW(a.spawn<counter_actor>(1), not_initialized);
  EXPECT_THROW(a.spawn_on<count_from>("b", 1), not_initialized);
  EXPECT_THROW(a.spawn_on<counter_actor>("b", 1), not_initialized);
  EXPECT_THROW(a.get_worker_info(), not_initialized);
  EXPECT_THROW(a.get_worker_info("b"), not_initialized);
  EXPECT_THROW(a.routes(), not_initialized);
  EXPECT_THROW(a.debug_info(), not_initialized);
  EXPECT_THROW(a.system(), not_initialized);
  // What needs no network still answers.
  EXPECT_EQ(a.name(), "a");
  EXPECT_EQ(a.rank(), 0u);
  EXPECT_EQ(a.world_size(), 2u);
  EXPECT_EQ(a.workers().size(), 2u);
  a.shutdown();
  a.shutdown(false);
  for (const node& none : {node(nullptr)}) {
    EXPECT_THROW(none.rank(), not_initialized);
    EXPECT_THROW(none.shutdown(), not_initialized);
    EXPECT_THROW(none.rpc_sync<&sum>("b", 1, 2), not_initialized);
  }
}

TEST_P(shutting_down, lets_threads_that_use_the_node_finish) {
  const std::function<void(node&)> uses[] = {
      [](node& n) { n.routes(); },
      [](node& n) { n.debug_info(); },
      [](node& n) { n.spawn(count_from, 0); },
      [](node& n) { n.spawn<counter_actor>(0); },
  };
  for (int i = 0; i < 20; ++i) {
    auto nodes = start({"a"});
    std::atomic<int> busy{0};
    std::vector<std::future<void>> users;
    for (const auto& use : uses)
      users.push_back(std::async(std::launch::async, [&, n = nodes[0]]() mutable {
        for (bool first = true;; first = false) {
          try {
            use(n);
          } catch (const not_initialized&) {
            return;
          }
          if (first) ++busy;
        }
      }));
    ASSERT_TRUE(eventually([&] { return busy == 4; }));
    nodes[0].shutdown(false);
    for (auto& user : users) user.get();
  }
}

TEST_P(shutting_down, by_two_threads_is_one_shutdown) {
  auto nodes = start({"a", "b"});
  std::vector<node> twice{nodes[0], nodes[1], nodes[0], nodes[1]};
  shut_down(twice);
  EXPECT_THROW(nodes[0].rpc_sync<&sum>("b", 1, 2), not_initialized);
}

TEST_P(shutting_down, can_be_followed_by_a_new_start_twenty_times) {
  for (int i = 0; i < 20; ++i) {
    auto nodes = start({"a", "b"});
    EXPECT_EQ(nodes[i % 2].rpc_sync<&sum>(1 - i % 2, i, 1), i + 1);
    shut_down(nodes);
  }
}

// It ends when its node is long gone: requesters still get the error.
struct stay {};
TROUPE_MESSAGE(stay)
using staying = actor<answers<stay, int>>;
staying::behavior_type stays_and_throws() {
  return {[](stay) -> int {
    shared_door::current()->pass();
    throw std::runtime_error("late");
  }};
}

TEST(shutting_down, an_actor_that_ends_later_answers) {
  auto nodes = make_nodes(network::loopback, {"a"});
  const auto* const system = &nodes[0].system();
  const shared_door door;
  const auto late = nodes[0].spawn(stays_and_throws);
  const auto first = request(late, stay{});
  const auto second = request(late, stay{});
  ASSERT_TRUE(door->wait_for(1));
  auto going = std::async(std::launch::async, [&] { nodes[0].shutdown(false); });
  EXPECT_TRUE(eventually([&] { return !actor_system_host::find_actors_of(system); }));
  door->open();
  EXPECT_THROW(first.get(), error);
  EXPECT_THROW(second.get(), actor_down);
  going.get();
}

}  // namespace
}  // namespace troupe::test
