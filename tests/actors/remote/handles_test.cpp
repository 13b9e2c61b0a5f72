// Handles: the same here and there, inside of messages, from hand to hand, and back home.
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"

namespace troupe::test {

struct introduction {
  counter whom;
};
TROUPE_MESSAGE(introduction, whom)

struct ask_it {
  int amount = 0;
};
TROUPE_MESSAGE(ask_it, amount)

struct crowd {
  std::vector<counter> all;
  std::optional<counter> chief;
};
TROUPE_MESSAGE(crowd, all, chief)

struct give_back {};
TROUPE_MESSAGE(give_back)

namespace {

class handles : public on_networks {};
TROUPE_ON_NETWORKS(handles);

// Keeps the counter it is introduced to and asks it on demand.
using friendly = actor<answers<introduction>, answers<ask_it, int>, answers<crowd, int>,
                       answers<give_back, counter>>;

friendly::behavior_type be_friendly(friendly::pointer) {
  auto known = std::make_shared<std::optional<counter>>();
  return {
      [known](const introduction& x) { *known = x.whom; },
      [known](const ask_it& x) { return request(**known, add{x.amount}).get(); },
      [](const crowd& x) {
        int sum = 0;
        for (int one : when_all(x.all, add{1}).get()) sum += one;
        return x.chief ? sum + request(*x.chief, total{}).get() : sum;
      },
      [known](const give_back&) { return **known; },
  };
}

int ask(const counter& whom, int amount) { return request(whom, add{amount}).get(); }
counter same(const counter& x) { return x; }
std::vector<counter> twice(const counter& x) { return {x, x}; }
void nothing() {}

bool is_lost(const std::string& name) {
  try {
    this_node().rpc_sync<&nothing>(name);
    return false;
  } catch (const peer_lost&) {
    return true;
  }
}

void introduce_one_of_c(const friendly& to, int start) {
  request(to, introduction{this_node().spawn_on<counter_actor>("c", start)}).get();
}

caf::strong_actor_ptr same_pointer(const caf::strong_actor_ptr& x) { return x; }

TEST_P(handles, work_the_same_here_and_there) {
  auto nodes = start({"a", "b"});
  for (int at : {0, 1}) {
    auto c = nodes[0].spawn_on<counter_actor>(at, 0);
    EXPECT_EQ(request(c, add{2}).get(), 2);
    caf::anon_send(c, note{3});
    EXPECT_EQ(request(c, total{}).get(), 5);
    caf::scoped_actor asker(nodes[0].system());
    int answer = 0;
    asker->request(c, caf::infinite, add{1})
        .receive([&](int x) { answer = x; }, [&](const caf::error&) { answer = -1; });
    EXPECT_EQ(answer, 6);
    caf::anon_send(c, leave{});
    EXPECT_TRUE(eventually([&] {
      try {
        request(c, total{}).get_for(time_limit);
        return false;
      } catch (const actor_down& e) {
        EXPECT_EQ(e.fault().node, nodes[static_cast<std::size_t>(at)].name());
        EXPECT_EQ(e.fault().function, type_name<total>());
        return true;
      } catch (const remote_error&) {  // dropped as the actor ended
        return false;
      }
    }));
  }
}

TEST_P(handles, keep_messages_of_one_sender_in_order) {
  auto nodes = start({"a", "b"});
  auto c = nodes[0].spawn_on<count_from>("b", 0);
  int sum = 0;
  std::vector<future<int>> answers;
  std::vector<int> expected;
  for (int i = 0; i < 1000; ++i) {
    caf::anon_send(c, note{i});
    answers.push_back(request(c, add{1}));
    expected.push_back(sum += i + 1);
  }
  EXPECT_EQ(when_all(answers).get(), expected);
}

TEST_P(handles, take_messages_that_nobody_waits_for) {
  auto nodes = start({"a", "b"});
  std::vector<counter> kept;
  for (int at : {0, 1}) {
    auto c = nodes[0].spawn_on<count_from>(at, 0);
    for (int i = 0; i < 100; ++i) {
      send(c, note{1});
      send(c, add{1});  // its answer is dropped
    }
    EXPECT_EQ(request(c, total{}).get(), 200);
    EXPECT_EQ(nodes[0].debug_info().calls_in_flight, 0u);
    send(c, leave{});
    EXPECT_THROW(request(c, total{}).get(), error);
    send(c, note{1});
    kept.push_back(c);
  }
  EXPECT_THROW(send(counter(), note{1}), invalid_argument);
  kept.push_back(nodes[0].spawn(count_from, 0));
  kept.push_back(nodes[0].spawn_on<count_from>("b", 0));
  shut_down(nodes);
  nodes.clear();
  for (auto& c : kept) send(c, note{1});
}

TEST_P(handles, travel_to_and_from_functions) {
  auto nodes = start({"a", "b", "c"});
  auto c = nodes[0].spawn(count_from, 0);
  EXPECT_EQ(nodes[0].rpc_sync<&ask>("b", c, 4), 4);
  auto remote = nodes[0].spawn_on<count_from>("b", 10);
  EXPECT_EQ(nodes[0].rpc_sync<&ask>("c", remote, 4), 14);
  EXPECT_EQ(nodes[0].rpc_sync<&ask>("b", remote, 4), 18);
  auto two = nodes[0].rpc_sync<&twice>("c", remote);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0], remote);
  EXPECT_EQ(two[1], remote);
}

TEST_P(handles, that_come_home_are_the_original) {
  auto nodes = start({"a", "b", "c"});
  auto c = nodes[0].spawn<counter_actor>(0);
  auto home = nodes[0].rpc_sync<&same>("b", c);
  EXPECT_EQ(home, c);
  EXPECT_EQ(caf::actor_cast<caf::strong_actor_ptr>(home).get(),
            caf::actor_cast<caf::strong_actor_ptr>(c).get());
  EXPECT_EQ(nodes[0].rpc_sync<&same>("a", c), c);
  // By way of a third node.
  auto keeper = nodes[0].spawn_on<be_friendly>("b");
  request(keeper, introduction{c}).get();
  auto back = request(keeper, give_back{}).get();
  EXPECT_EQ(caf::actor_cast<caf::strong_actor_ptr>(back).get(),
            caf::actor_cast<caf::strong_actor_ptr>(c).get());
}

TEST_P(handles, of_an_actor_that_has_ended_come_home_and_report_it) {
  auto nodes = start({"a", "b"});
  auto c = nodes[0].spawn<counter_actor>(0);
  caf::anon_send_exit(c, caf::exit_reason::kill);
  EXPECT_TRUE(eventually([&] {
    try {
      request(c, total{}).get();
      return false;
    } catch (const actor_down&) {
      return true;
    }
  }));
  const auto back = nodes[0].rpc_sync<&same>("b", c);
  ASSERT_TRUE(back);
  EXPECT_THROW(request(back, total{}).get_for(time_limit), actor_down);
}

TEST_P(handles, compare_by_the_actor_they_name) {
  auto nodes = start({"a", "b", "c"});
  auto x = nodes[0].spawn_on<count_from>("b", 0);
  auto y = nodes[0].spawn_on<count_from>("b", 0);
  auto here = nodes[0].spawn(count_from, 0);
  auto x_again = nodes[0].rpc_sync<&same>("c", x);
  EXPECT_EQ(x, x_again);
  EXPECT_NE(x, y);
  EXPECT_NE(x, here);
  EXPECT_EQ(x.node(), y.node());
  EXPECT_NE(x.node(), here.node());
  EXPECT_EQ(here.node(), nodes[0].system().node());
  EXPECT_EQ(x.node(), nodes[1].system().node());
  EXPECT_TRUE(x.node());
  // The first actors of two nodes have the same number.
  auto of_b = nodes[1].spawn(count_from, 0);
  EXPECT_NE(of_b, here);
}

TEST_P(handles, of_nobody_travel_as_such) {
  auto nodes = start({"a", "b"});
  for (int to : {0, 1})
    EXPECT_EQ(nodes[0].rpc_sync<&same_pointer>(to, caf::strong_actor_ptr()), nullptr);
  EXPECT_THROW(request(counter(), total{}), invalid_argument);
}

TEST_P(handles, travel_inside_of_messages) {
  auto nodes = start({"a", "b", "c"});
  auto reader = nodes[0].spawn_on<be_friendly>("b");
  crowd everybody;
  for (int i = 0; i < 12; ++i) everybody.all.push_back(nodes[0].spawn_on<count_from>(i % 3, i));
  EXPECT_EQ(request(reader, everybody).get(), 66 + 12);
  everybody.chief = everybody.all[5];
  EXPECT_EQ(request(reader, everybody).get(), 66 + 24 + 7);
}

TEST_P(handles, can_be_passed_on_to_a_third_node) {
  auto nodes = start({"a", "b", "c"});
  auto of_c = nodes[0].spawn_on<counter_actor>("c", 0);
  auto at_b = nodes[0].spawn_on<be_friendly>("b");
  request(at_b, introduction{of_c}).get();
  EXPECT_EQ(request(at_b, ask_it{5}).get(), 5);
  EXPECT_EQ(request(of_c, add{1}).get(), 6);
}

TEST_P(handles, passed_on_hold_when_the_giver_lets_go_at_once) {
  auto nodes = start({"a", "b", "c"});
  auto at_b = nodes[0].spawn_on<be_friendly>("b");
  for (int i = 0; i < 100; ++i) {
    // The message is all that keeps the counter.
    auto introduced = request(at_b, introduction{nodes[0].spawn_on<counter_actor>("c", i)});
    EXPECT_EQ(request(at_b, ask_it{1}).get(), i + 1);
    introduced.get();
  }
}

TEST_P(handles, passed_on_hold_when_the_giver_leaves) {
  auto nodes = start({"b", "c", "a"});
  auto at_b = nodes[0].spawn(be_friendly);
  nodes[0].rpc_sync<&introduce_one_of_c>("a", at_b, 60);
  EXPECT_EQ(request(at_b, ask_it{1}).get(), 61);
  nodes[2].shutdown(false);
  ASSERT_TRUE(eventually([&] { return nodes[1].rpc_sync<&is_lost>("c", "a"); }));
  EXPECT_EQ(request(at_b, ask_it{1}).get_for(time_limit), 62);
}

}  // namespace
}  // namespace troupe::test
