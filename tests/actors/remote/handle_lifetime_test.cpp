// Who keeps an actor alive: handles anywhere, as long as they exist, and nothing else.
#include <caf/send.hpp>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/keeper.hpp"

namespace troupe::test {

namespace {

class handle_lifetime : public on_networks {
protected:
  void SetUp() override {
    ASSERT_TRUE(eventually([] { return living_counters == 0; }));
  }
};
TROUPE_ON_NETWORKS(handle_lifetime);

void nothing() {}
int bounce_with(int depth, const std::string& other, const counter& whom) {
  if (depth == 0) return 0;
  const auto here = this_node();
  return 1 + here.rpc_sync<&bounce_with>(other, depth - 1, here.name(), whom, timeout(0ms));
}
counter same(const counter& x) { return x; }
void look_at(const counter&) {}
counter make_after_the_door(int start) {
  shared_door::current()->pass();
  return this_node().spawn<counter_actor>(start);
}
std::vector<counter> refuse(const counter&) { throw std::out_of_range("no"); }

bool nothing_left(const std::vector<node>& nodes) {
  return eventually([&] {
    for (const auto& n : nodes) {
      auto info = n.debug_info();
      if (info.actors_held != 0 || info.remote_handles != 0 || info.calls_in_flight != 0)
        return false;
    }
    return living_counters == 0;
  });
}

// What was sent to `to` before has been taken in when this returns.
void flush(const node& from, int to) {
  for (int i = 0; i < 3; ++i) from.rpc_sync<&nothing>(to);
}

TEST_P(handle_lifetime, lasts_as_long_as_the_last_copy_elsewhere) {
  auto nodes = start({"a", "b"});
  auto one = std::make_optional(nodes[0].spawn_on<counter_actor>("b", 0));
  auto two = one;
  EXPECT_EQ(nodes[1].debug_info().actors_held, 1u);
  one.reset();
  flush(nodes[0], 1);
  EXPECT_EQ(living_counters, 1);
  EXPECT_EQ(request(*two, add{1}).get(), 1);
  two.reset();
  EXPECT_TRUE(nothing_left(nodes));
}

TEST_P(handle_lifetime, of_an_actor_made_by_function_ends_too) {
  auto nodes = start({"a", "b"});
  {
    auto made = nodes[0].spawn_on<count_from>("b", 0);
    EXPECT_EQ(request(made, add{1}).get(), 1);
    EXPECT_EQ(living_counters, 1);
  }
  EXPECT_TRUE(nothing_left(nodes));
}

TEST_P(handle_lifetime, lasts_while_the_owner_has_a_handle) {
  auto nodes = start({"a", "b"});
  auto mine = std::make_optional(nodes[0].spawn<counter_actor>(0));
  for (int i = 0; i < 10; ++i) nodes[0].rpc_sync<&look_at>("b", *mine);
  EXPECT_TRUE(eventually([&] { return nodes[0].debug_info().actors_held == 0; }));
  EXPECT_EQ(request(*mine, add{1}).get(), 1);
  EXPECT_EQ(living_counters, 1);
  mine.reset();
  EXPECT_TRUE(nothing_left(nodes));
}

TEST_P(handle_lifetime, lasts_while_an_actor_elsewhere_keeps_one) {
  auto nodes = start({"a", "b", "c"});
  auto at_b = nodes[0].spawn_on<keep_them>("b");
  request(at_b, keep_one{nodes[0].spawn<counter_actor>(0)}).get();
  request(at_b, keep_one{nodes[0].spawn_on<counter_actor>("b", 0)}).get();
  request(at_b, keep_one{nodes[0].spawn_on<counter_actor>("c", 0)}).get();
  for (int to : {0, 1, 2}) flush(nodes[0], to);
  for (int to : {1, 2}) flush(nodes[1], to);
  EXPECT_EQ(living_counters, 3);
  request(at_b, drop_all{}).get();
  EXPECT_TRUE(eventually([] { return living_counters == 0; }));
}

TEST_P(handle_lifetime, leaves_nothing_after_many_hand_overs) {
  auto nodes = start({"a", "b", "c"});
  {
    auto at_b = nodes[0].spawn_on<keep_them>("b");
    auto at_c = nodes[0].spawn_on<keep_them>("c");
    std::vector<counter> all;
    for (int i = 0; i < 30; ++i) all.push_back(nodes[0].spawn_on<counter_actor>(i % 3, 0));
    for (int round = 0; round < 5; ++round) {
      for (auto& one : all) {
        request(at_b, keep_one{one});
        one = nodes[0].rpc_sync<&same>("c", one);
        request(at_c, keep_one{one});
      }
      request(at_b, drop_all{}).get();
    }
    EXPECT_EQ(living_counters, 30);
  }
  EXPECT_TRUE(nothing_left(nodes));
}

TEST_P(handle_lifetime, ends_with_the_node_that_held_it) {
  auto nodes = start({"a", "b"});
  auto held = nodes[0].spawn_on<counter_actor>("b", 0);
  EXPECT_EQ(living_counters, 1);
  nodes[0].shutdown(false);
  EXPECT_TRUE(eventually([] { return living_counters == 0; }));
}

TEST_P(handle_lifetime, ends_with_its_own_node) {
  auto nodes = start({"a", "b"});
  auto mine = nodes[1].spawn<counter_actor>(0);
  auto held = nodes[0].rpc_sync<&same>("b", nodes[0].spawn_on<counter_actor>("b", 0));
  EXPECT_EQ(living_counters, 2);
  nodes[1].shutdown(false);
  mine = counter();
  EXPECT_TRUE(eventually([] { return living_counters == 0; }));
  // The end of the actor or the loss of its node, whichever is known first; never the wait's limit.
  auto late = request(held, total{});
  ASSERT_TRUE(late.wait_for(time_limit));
  EXPECT_THROW(late.get(), error);
}

TEST_P(handle_lifetime, is_not_held_by_messages_that_fail) {
  auto nodes = start({"a", "b"});
  {
    auto mine = nodes[0].spawn<counter_actor>(0);
    for (int i = 0; i < 20; ++i) EXPECT_THROW(nodes[0].rpc_sync<&refuse>("b", mine), remote_error);
    // To an actor that has ended.
    auto gone = nodes[0].spawn_on<keep_them>("b");
    caf::anon_send_exit(gone, caf::exit_reason::user_shutdown);
    EXPECT_THROW(
        {
          for (int i = 0; i < 10'000; ++i) request(gone, keep_one{mine}).get();
        },
        error);
  }
  EXPECT_TRUE(nothing_left(nodes));
}

TEST_P(handle_lifetime, is_not_held_by_calls_that_a_deadlock_ends) {
  rpc_options options;
  options.max_threads = 4;
  auto nodes = start({"a", "b"}, options);
  {
    auto mine = nodes[0].spawn<counter_actor>(0);
    auto call = nodes[0].rpc_async<&bounce_with>("b", 64, "a", mine, timeout(0ms));
    ASSERT_TRUE(call.wait_for(time_limit));
    EXPECT_THROW(call.get(), deadlock_error);
  }
  EXPECT_TRUE(nothing_left(nodes));
}

// A handle of another node of this process cannot be sent.
std::optional<counter> foreign;

keep_two with_the_foreign(int) { return {this_node().spawn<counter_actor>(0), *foreign}; }
void take_two(const counter&, const counter&) {}

using giver = actor<answers<drop_all, keep_two>>;
giver::behavior_type give_with_the_foreign(giver::pointer) {
  return {[](const drop_all&) { return with_the_foreign(0); }};
}

TEST_P(handle_lifetime, is_not_held_by_messages_that_could_not_be_written) {
  auto nodes = start({"a", "b", "c"});
  foreign = nodes[2].spawn<counter_actor>(0);
  auto at_b = std::make_optional(nodes[0].spawn_on<keep_them>("b"));
  auto gives = std::make_optional(nodes[0].spawn_on<give_with_the_foreign>("b"));
  for (int at : {0, 2}) {
    auto mine = nodes[0].spawn_on<counter_actor>(at, 0);
    for (int i = 0; i < 3; ++i) {
      EXPECT_THROW(nodes[0].rpc_sync<&take_two>("b", mine, *foreign), encode_error);
      EXPECT_THROW(request(*at_b, keep_two{mine, *foreign}).get(), encode_error);
      caf::anon_send(*at_b, keep_two{mine, *foreign});
    }
  }
  EXPECT_THROW(nodes[0].rpc_sync<&with_the_foreign>("b", 0), encode_error);
  EXPECT_THROW(request(*gives, drop_all{}).get(), encode_error);
  at_b.reset();
  gives.reset();
  foreign.reset();
  EXPECT_TRUE(nothing_left(nodes));
}

TEST_P(handle_lifetime, is_not_held_by_messages_to_a_lost_node) {
  auto nodes = start({"a", "b", "c"});
  auto at_b = std::make_optional(nodes[0].spawn_on<keep_them>("b"));
  auto mine = std::make_optional(nodes[0].spawn<counter_actor>(0));
  auto of_c = std::make_optional(nodes[0].spawn_on<counter_actor>("c", 0));
  auto send_to_b = [&] {
    auto call = nodes[0].rpc_async<&take_two>("b", *mine, *of_c);
    EXPECT_THROW(request(*at_b, keep_two{*mine, *of_c}).get(), error);
    caf::anon_send(*at_b, keep_two{*mine, *of_c});
    try {
      call.get_for(time_limit);
    } catch (const peer_lost&) {
      return true;
    }
    return false;
  };
  nodes[1].shutdown(false);
  ASSERT_TRUE(eventually(send_to_b));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(send_to_b());
  at_b.reset();
  mine.reset();
  of_c.reset();
  EXPECT_TRUE(nothing_left({nodes[0], nodes[2]}));
}

TEST_P(handle_lifetime, of_a_lost_node_is_passed_on_without_a_trace) {
  auto nodes = start({"a", "b", "c"});
  auto of_c = std::make_optional(nodes[0].spawn_on<counter_actor>("c", 0));
  auto ending = std::async(std::launch::async, [&] { nodes[2].shutdown(false); });
  ASSERT_TRUE(eventually([&] {
    nodes[0].rpc_sync<&look_at>("b", *of_c);
    try {
      nodes[0].rpc_sync<&nothing>("c");
    } catch (const peer_lost&) {
      return true;
    }
    return false;
  }));
  for (int i = 0; i < 10; ++i) nodes[0].rpc_sync<&look_at>("b", *of_c);
  ending.get();
  of_c.reset();
  EXPECT_TRUE(nothing_left({nodes[0], nodes[1]}));
}

TEST_P(handle_lifetime, is_not_held_by_an_answer_that_nobody_reads) {
  auto nodes = start({"a", "b"});
  for (int i = 0; i < 20; ++i) nodes[0].rpc_async<&same>("b", nodes[0].spawn<counter_actor>(i));
  EXPECT_TRUE(nothing_left(nodes));
}

TEST_P(handle_lifetime, is_not_held_by_an_answer_that_comes_too_late) {
  auto nodes = start({"a", "b"});
  const shared_door door;
  auto late = nodes[0].rpc_async<&make_after_the_door>("b", 0, troupe::timeout(10ms));
  EXPECT_THROW(late.get(), rpc_timeout);
  ASSERT_TRUE(door->wait_for(1));
  const auto before = nodes[1].debug_info().traffic.messages_sent;
  door->open();
  ASSERT_TRUE(eventually([&] { return nodes[1].debug_info().traffic.messages_sent > before; }));
  flush(nodes[0], 1);
  EXPECT_TRUE(nothing_left(nodes));
}

}  // namespace
}  // namespace troupe::test
