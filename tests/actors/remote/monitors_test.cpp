// A watcher of an actor on another node is notified of its end exactly once, with the reason.
#include <caf/send.hpp>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/remote/peer_watch.hpp"

namespace troupe::test {

struct end_badly {
  std::string text;
};
TROUPE_MESSAGE(end_badly, text)
struct end_well {};
TROUPE_MESSAGE(end_well)
struct end_with_error {};
TROUPE_MESSAGE(end_with_error)
struct still_there {};
TROUPE_MESSAGE(still_there)

namespace {

class monitors : public on_networks {};
TROUPE_ON_NETWORKS(monitors);

using mortal = actor<answers<end_badly, int>, accepts<end_well>, accepts<end_with_error>,
                     answers<still_there, int>>;

mortal::behavior_type live(mortal::pointer self) {
  return {
      [](const end_badly& q) -> int { throw std::length_error(q.text); },
      [self](const end_well&) { self->quit(); },
      [self](const end_with_error&) { self->quit(caf::sec::runtime_error); },
      [](const still_there&) { return 1; },
  };
}

// The ends that watchers have been notified of.
struct seen_ends {
  std::mutex mutex;
  std::vector<std::pair<caf::actor_addr, caf::error>> ends;

  void add(const caf::actor_addr& who, const caf::error& why) {
    std::lock_guard lock(mutex);
    ends.emplace_back(who, why);
  }
  std::size_t count() {
    std::lock_guard lock(mutex);
    return ends.size();
  }
  caf::error reason(std::size_t i = 0) {
    std::lock_guard lock(mutex);
    return ends.at(i).second;
  }
};
using log = std::shared_ptr<seen_ends>;

using watcher = actor<answers<still_there, int>>;

watcher::behavior_type watch(watcher::pointer self, mortal whom, log seen) {
  self->set_down_handler([=](const caf::down_msg& m) { seen->add(m.source, m.reason); });
  self->monitor(whom);
  return {[](const still_there&) { return 1; }};
}

watcher::behavior_type link_to(watcher::pointer self, mortal whom, log seen) {
  self->set_exit_handler([=](const caf::exit_msg& m) { seen->add(m.source, m.reason); });
  self->link_to(whom);
  return {[](const still_there&) { return 1; }};
}

watcher::behavior_type link_and_die(watcher::pointer self, mortal whom) {
  self->link_to(whom);
  return {[](const still_there&) { return 1; }};
}

void nothing() {}
void wait_until_set(const node& n, const watcher& w) {
  request(w, still_there{}).get();
  n.rpc_sync<&nothing>("b");
}

TEST_P(monitors, are_notified_of_an_end_with_its_reason) {
  auto nodes = start({"a", "b"});
  struct {
    std::function<void(const mortal&)> end;
    std::function<bool(const caf::error&)> expected;
  } cases[] = {
      {[](const mortal& m) { caf::anon_send(m, end_well{}); },
       [](const caf::error& e) { return !e || e == caf::exit_reason::normal; }},
      {[](const mortal& m) { caf::anon_send(m, end_with_error{}); },
       [](const caf::error& e) { return e == caf::sec::runtime_error; }},
      {[](const mortal& m) { caf::anon_send_exit(m, caf::exit_reason::kill); },
       [](const caf::error& e) { return e == caf::exit_reason::kill; }},
      {[](const mortal& m) { caf::anon_send_exit(m, caf::exit_reason::user_shutdown); },
       [](const caf::error& e) { return e == caf::exit_reason::user_shutdown; }},
      {[](const mortal& m) { request(m, end_badly{"oh"}); },
       [](const caf::error& e) {
         auto why = to_fault(e);
         return why.type == "std::length_error" && why.text == "oh" && why.node == "b";
       }},
  };
  for (auto& c : cases) {
    auto seen = std::make_shared<seen_ends>();
    auto m = nodes[0].spawn_on<live>("b");
    auto w = nodes[0].spawn(watch, m, seen);
    wait_until_set(nodes[0], w);
    EXPECT_EQ(seen->count(), 0u);
    c.end(m);
    ASSERT_TRUE(eventually([&] { return seen->count() > 0; }));
    EXPECT_TRUE(c.expected(seen->reason())) << to_string(seen->reason());
    EXPECT_EQ(seen->ends[0].first, m.address());
    wait_until_set(nodes[0], w);
    EXPECT_EQ(seen->count(), 1u);
  }
}

struct look_away {
  mortal from;
};
TROUPE_MESSAGE(look_away, from)
using fickle = actor<answers<look_away>>;

fickle::behavior_type watch_for_a_while(fickle::pointer self, mortal whom, log seen) {
  self->set_down_handler([=](const caf::down_msg& m) { seen->add(m.source, m.reason); });
  self->monitor(whom);
  return {[self](const look_away& x) { self->demonitor(x.from.address()); }};
}

TEST_P(monitors, that_look_away_receive_nothing) {
  auto nodes = start({"a", "b"});
  auto seen = std::make_shared<seen_ends>();
  auto seen_still = std::make_shared<seen_ends>();
  auto m = nodes[0].spawn_on<live>("b");
  auto f = nodes[0].spawn(watch_for_a_while, m, seen);
  auto w = nodes[0].spawn(watch, m, seen_still);
  request(f, look_away{m}).get();
  wait_until_set(nodes[0], w);
  caf::anon_send(m, end_well{});
  ASSERT_TRUE(eventually([&] { return seen_still->count() == 1; }));
  // Any notice to it has arrived by now.
  request(f, look_away{m}).get();
  EXPECT_EQ(seen->count(), 0u);
}

TEST_P(monitors, on_the_same_node_receive_the_same) {
  auto nodes = start({"a", "b"});
  auto seen = std::make_shared<seen_ends>();
  auto m = nodes[0].spawn(live);
  auto w = nodes[0].spawn(watch, m, seen);
  wait_until_set(nodes[0], w);
  caf::anon_send(m, end_with_error{});
  ASSERT_TRUE(eventually([&] { return seen->count() == 1; }));
  EXPECT_EQ(seen->reason(), caf::sec::runtime_error);
}

TEST_P(monitors, are_all_notified) {
  auto nodes = start({"a", "b", "c"});
  auto seen = std::make_shared<seen_ends>();
  auto m = nodes[0].spawn_on<live>("b");
  std::vector<watcher> watchers;
  for (int i = 0; i < 10; ++i) watchers.push_back(nodes[0].spawn(watch, m, seen));
  for (auto& w : watchers) wait_until_set(nodes[0], w);
  caf::anon_send(m, end_with_error{});
  EXPECT_TRUE(eventually([&] { return seen->count() == 10; }));
  for (auto& w : watchers) wait_until_set(nodes[0], w);
  EXPECT_EQ(seen->count(), 10u);
}

TEST_P(monitors, of_one_that_has_ended_before_are_notified_at_once) {
  auto nodes = start({"a", "b"});
  auto seen = std::make_shared<seen_ends>();
  auto m = nodes[0].spawn_on<live>("b");
  caf::anon_send(m, end_with_error{});
  auto over = request(m, still_there{});
  ASSERT_TRUE(over.wait_for(time_limit));
  EXPECT_THROW(over.get(), error);
  auto first = nodes[0].spawn(watch, m, seen);
  ASSERT_TRUE(eventually([&] { return seen->count() == 1; }));
  EXPECT_TRUE(seen->reason(0));
  // The end is known here by now.
  auto second = nodes[0].spawn(watch, m, seen);
  ASSERT_TRUE(eventually([&] { return seen->count() == 2; }));
  EXPECT_TRUE(seen->reason(1));
}

TEST_P(monitors, are_notified_when_the_node_shuts_down) {
  auto nodes = start({"a", "b"});
  auto seen = std::make_shared<seen_ends>();
  auto m = nodes[0].spawn_on<live>("b");
  auto w = nodes[0].spawn(watch, m, seen);
  wait_until_set(nodes[0], w);
  nodes[1].shutdown(false);
  ASSERT_TRUE(eventually([&] { return seen->count() == 1; }));
  EXPECT_TRUE(seen->reason());
  // And of its actors that are watched only now.
  auto late = nodes[0].spawn(watch, m, seen);
  ASSERT_TRUE(eventually([&] { return seen->count() == 2; }));
  EXPECT_TRUE(seen->reason(1));
}

TEST_P(monitors, of_links_receive_an_exit) {
  auto nodes = start({"a", "b"});
  auto seen = std::make_shared<seen_ends>();
  auto m = nodes[0].spawn_on<live>("b");
  auto w = nodes[0].spawn(link_to, m, seen);
  wait_until_set(nodes[0], w);
  caf::anon_send(m, end_with_error{});
  ASSERT_TRUE(eventually([&] { return seen->count() == 1; }));
  EXPECT_EQ(seen->reason(), caf::sec::runtime_error);
  EXPECT_EQ(request(w, still_there{}).get_for(time_limit), 1);
}

TEST_P(monitors, of_links_to_a_lost_node_receive_an_exit) {
  auto nodes = start({"a", "b"});
  auto seen = std::make_shared<seen_ends>();
  auto w = nodes[0].spawn(link_to, nodes[0].spawn_on<live>("b"), seen);
  wait_until_set(nodes[0], w);
  nodes[1].shutdown(false);
  ASSERT_TRUE(eventually([&] { return seen->count() == 1; }));
  EXPECT_TRUE(seen->reason());
}

TEST_P(monitors, of_links_end_with_the_other) {
  auto nodes = start({"a", "b"});
  for (bool far_one_first : {true, false}) {
    auto m = nodes[0].spawn_on<live>("b");
    auto w = nodes[0].spawn(link_and_die, m);
    wait_until_set(nodes[0], w);
    auto seen = std::make_shared<seen_ends>();
    auto watching = nodes[0].spawn(watch, m, seen);
    wait_until_set(nodes[0], watching);
    if (far_one_first)
      caf::anon_send_exit(m, caf::exit_reason::user_shutdown);
    else
      caf::anon_send_exit(w, caf::exit_reason::user_shutdown);
    EXPECT_TRUE(eventually([&] {
      auto f = request(w, still_there{});
      try {
        f.get_for(time_limit);
      } catch (const rpc_timeout&) {
      } catch (const error&) {
        return true;
      }
      return false;
    })) << far_one_first;
    EXPECT_TRUE(eventually([&] { return seen->count() == 1; })) << far_one_first;
  }
}

mortal kept;
mortal lend() { return kept; }

// A node watches again with each new proxy of an actor, which may live for long.
TEST_P(monitors, of_a_node_are_one_however_often_it_gets_the_handle) {
  auto nodes = start({"a", "b"});
  kept = nodes[1].spawn(&live);
  const std::shared_ptr<void> drop(nullptr, [](void*) { kept = nullptr; });
  for (int i = 0; i < 3; ++i) {
    {
      const auto there = nodes[0].rpc_sync<&lend>("b");
      caf::actor_cast<caf::strong_actor_ptr>(there)->get()->attach_functor(
          [](const caf::error&) {});
      EXPECT_EQ(request(there, still_there{}).get(), 1);  // the watch has come before it
    }
    EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().actors_held == 0; }));
  }
  const auto& watching = *nodes[1].core().peers().find(nodes[0].rank());
  EXPECT_EQ(caf::actor_cast<caf::strong_actor_ptr>(kept)->get()->detach(peer_watch::of(watching)),
            1u);
  send(kept, end_well{});
  kept = nullptr;
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
