// A watcher of an actor on another node is notified of its end exactly once, with the reason.
#include <caf/send.hpp>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"

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
struct heard {
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
using log = std::shared_ptr<heard>;

using watcher = actor<answers<still_there, int>>;

watcher::behavior_type watch(watcher::pointer self, mortal whom, log told) {
  self->set_down_handler([=](const caf::down_msg& m) { told->add(m.source, m.reason); });
  self->monitor(whom);
  return {[](const still_there&) { return 1; }};
}

watcher::behavior_type link_to(watcher::pointer self, mortal whom, log told) {
  self->set_exit_handler([=](const caf::exit_msg& m) { told->add(m.source, m.reason); });
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

TEST_P(monitors, hear_of_an_end_with_its_reason) {
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
    auto told = std::make_shared<heard>();
    auto m = nodes[0].spawn_on<live>("b");
    auto w = nodes[0].spawn(watch, m, told);
    wait_until_set(nodes[0], w);
    EXPECT_EQ(told->count(), 0u);
    c.end(m);
    ASSERT_TRUE(eventually([&] { return told->count() > 0; }));
    EXPECT_TRUE(c.expected(told->reason())) << to_string(told->reason());
    EXPECT_EQ(told->ends[0].first, m.address());
    wait_until_set(nodes[0], w);
    EXPECT_EQ(told->count(), 1u);
  }
}

struct look_away {
  mortal from;
};
TROUPE_MESSAGE(look_away, from)
using fickle = actor<answers<look_away>>;

fickle::behavior_type watch_for_a_while(fickle::pointer self, mortal whom, log told) {
  self->set_down_handler([=](const caf::down_msg& m) { told->add(m.source, m.reason); });
  self->monitor(whom);
  return {[self](const look_away& x) { self->demonitor(x.from.address()); }};
}

TEST_P(monitors, that_look_away_hear_nothing) {
  auto nodes = start({"a", "b"});
  auto told = std::make_shared<heard>();
  auto told_still = std::make_shared<heard>();
  auto m = nodes[0].spawn_on<live>("b");
  auto f = nodes[0].spawn(watch_for_a_while, m, told);
  auto w = nodes[0].spawn(watch, m, told_still);
  request(f, look_away{m}).get();
  wait_until_set(nodes[0], w);
  caf::anon_send(m, end_well{});
  ASSERT_TRUE(eventually([&] { return told_still->count() == 1; }));
  // Any notice to it has arrived by now.
  request(f, look_away{m}).get();
  EXPECT_EQ(told->count(), 0u);
}

TEST_P(monitors, on_the_same_node_hear_the_same) {
  auto nodes = start({"a", "b"});
  auto told = std::make_shared<heard>();
  auto m = nodes[0].spawn(live);
  auto w = nodes[0].spawn(watch, m, told);
  wait_until_set(nodes[0], w);
  caf::anon_send(m, end_with_error{});
  ASSERT_TRUE(eventually([&] { return told->count() == 1; }));
  EXPECT_EQ(told->reason(), caf::sec::runtime_error);
}

TEST_P(monitors, all_hear_of_it) {
  auto nodes = start({"a", "b", "c"});
  auto told = std::make_shared<heard>();
  auto m = nodes[0].spawn_on<live>("b");
  std::vector<watcher> watchers;
  for (int i = 0; i < 10; ++i) watchers.push_back(nodes[0].spawn(watch, m, told));
  for (auto& w : watchers) wait_until_set(nodes[0], w);
  caf::anon_send(m, end_with_error{});
  EXPECT_TRUE(eventually([&] { return told->count() == 10; }));
  for (auto& w : watchers) wait_until_set(nodes[0], w);
  EXPECT_EQ(told->count(), 10u);
}

TEST_P(monitors, of_one_that_has_ended_before_hear_at_once) {
  auto nodes = start({"a", "b"});
  auto told = std::make_shared<heard>();
  auto m = nodes[0].spawn_on<live>("b");
  caf::anon_send(m, end_with_error{});
  auto over = request(m, still_there{});
  ASSERT_TRUE(over.wait_for(patience));
  EXPECT_THROW(over.get(), error);
  auto first = nodes[0].spawn(watch, m, told);
  ASSERT_TRUE(eventually([&] { return told->count() == 1; }));
  EXPECT_TRUE(told->reason(0));
  // The end is known here by now.
  auto second = nodes[0].spawn(watch, m, told);
  ASSERT_TRUE(eventually([&] { return told->count() == 2; }));
  EXPECT_TRUE(told->reason(1));
}

TEST_P(monitors, hear_when_the_node_shuts_down) {
  auto nodes = start({"a", "b"});
  auto told = std::make_shared<heard>();
  auto m = nodes[0].spawn_on<live>("b");
  auto w = nodes[0].spawn(watch, m, told);
  wait_until_set(nodes[0], w);
  nodes[1].shutdown(false);
  ASSERT_TRUE(eventually([&] { return told->count() == 1; }));
  EXPECT_TRUE(told->reason());
  // And of its actors that are watched only now.
  auto late = nodes[0].spawn(watch, m, told);
  ASSERT_TRUE(eventually([&] { return told->count() == 2; }));
  EXPECT_TRUE(told->reason(1));
}

TEST_P(monitors, of_links_hear_an_exit) {
  auto nodes = start({"a", "b"});
  auto told = std::make_shared<heard>();
  auto m = nodes[0].spawn_on<live>("b");
  auto w = nodes[0].spawn(link_to, m, told);
  wait_until_set(nodes[0], w);
  caf::anon_send(m, end_with_error{});
  ASSERT_TRUE(eventually([&] { return told->count() == 1; }));
  EXPECT_EQ(told->reason(), caf::sec::runtime_error);
  EXPECT_EQ(request(w, still_there{}).get_for(patience), 1);
}

TEST_P(monitors, of_links_to_a_lost_node_hear_an_exit) {
  auto nodes = start({"a", "b"});
  auto told = std::make_shared<heard>();
  auto w = nodes[0].spawn(link_to, nodes[0].spawn_on<live>("b"), told);
  wait_until_set(nodes[0], w);
  nodes[1].shutdown(false);
  ASSERT_TRUE(eventually([&] { return told->count() == 1; }));
  EXPECT_TRUE(told->reason());
}

TEST_P(monitors, of_links_end_with_the_other) {
  auto nodes = start({"a", "b"});
  for (bool far_one_first : {true, false}) {
    auto m = nodes[0].spawn_on<live>("b");
    auto w = nodes[0].spawn(link_and_die, m);
    wait_until_set(nodes[0], w);
    auto told = std::make_shared<heard>();
    auto watching = nodes[0].spawn(watch, m, told);
    wait_until_set(nodes[0], watching);
    if (far_one_first)
      caf::anon_send_exit(m, caf::exit_reason::user_shutdown);
    else
      caf::anon_send_exit(w, caf::exit_reason::user_shutdown);
    EXPECT_TRUE(eventually([&] {
      auto f = request(w, still_there{});
      try {
        f.get_for(patience);
      } catch (const rpc_timeout&) {
      } catch (const error&) {
        return true;
      }
      return false;
    })) << far_one_first;
    EXPECT_TRUE(eventually([&] { return told->count() == 1; })) << far_one_first;
  }
}

}  // namespace
}  // namespace troupe::test
