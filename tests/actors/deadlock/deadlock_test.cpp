// Handlers that wait for one another for ever fail with an error that names why; others never do.

#include "tests/actors/node/job.hpp"
#include "troupe/actors/deadlock/deadlock_search.hpp"
#include "troupe/actors/node/node_core.hpp"

namespace troupe::test {

struct ping {
  int times = 0;
};
TROUPE_MESSAGE(ping, times)

struct pong {
  int times = 0;
};
TROUPE_MESSAGE(pong, times)

struct keep_it {};
TROUPE_MESSAGE(keep_it)

using opponent = actor<answers<ping, int>, answers<pong, int>>;

struct meet {
  opponent other;
};
TROUPE_MESSAGE(meet, other)

struct ask_back {
  opponent whom;
};
TROUPE_MESSAGE(ask_back, whom)

namespace {

int bounce_again(int depth, const std::string& other);

}  // namespace

}  // namespace troupe::test

TROUPE_IDEMPOTENT(&troupe::test::bounce_again)

namespace troupe::test {

namespace {

using testing::AllOf;
using testing::HasSubstr;

using player = actor<answers<ping, int>, answers<pong, int>, answers<meet, bool>>;

int bounce(int depth, const std::string& other) {
  if (depth == 0) return 0;
  auto here = this_node();
  return 1 + here.rpc_sync<&bounce>(other, depth - 1, here.name(), timeout(0ms));
}

int bounce_again(int depth, const std::string& other) {
  if (depth == 0) return 0;
  auto here = this_node();
  return 1 + here.rpc_sync<&bounce_again>(other, depth - 1, here.name(), timeout(time_limit),
                                          retry{.attempts = 2});
}

int bounce_later(int depth, const std::string& other) {
  if (depth == 0) return 0;
  auto here = this_node();
  promise<int> rest;
  rest.set_value(depth - 1);
  return 1 + here.rpc_sync<&bounce_later>(other, rest.get_future(), here.name(), timeout(0ms));
}

task<int> bounce_softly(int depth, std::string other) {
  if (depth == 0) co_return 0;
  auto here = this_node();
  co_return 1 + co_await here.rpc_async<&bounce_softly>(other, depth - 1, here.name());
}

int wait_at_door(int x) {
  shared_door::current()->pass();
  return x;
}

int ask_for(const std::string& whom, int x) {
  return this_node().rpc_sync<&wait_at_door>(whom, x, timeout(0ms));
}

int ask_over(const std::string& by, const std::string& whom, int x) {
  return this_node().rpc_sync<&ask_for>(by, whom, x, timeout(0ms));
}

int ask_opponent(const opponent& whom) { return request(whom, pong{0}).get(); }

// Whom a player has met.
using acquaintance = std::shared_ptr<opponent>;

auto meet_into(const acquaintance& known) {
  return [known](const meet& message) {
    *known = message.other;
    return true;
  };
}

// Asks the other, which asks back.
player::behavior_type play() {
  const auto other = std::make_shared<opponent>();
  return {
      [=](const ping& q) {
        return q.times == 0 ? 0 : 1 + request(*other, pong{q.times - 1}).get();
      },
      [=](const pong& q) {
        return q.times == 0 ? 0 : 1 + request(*other, ping{q.times - 1}).get();
      },
      meet_into(other),
  };
}

// Asks a function of the other node, which asks the one that this one has met: itself.
player::behavior_type play_by_function(const std::string& node) {
  const auto whom = std::make_shared<opponent>();
  return {
      [=](const ping&) { return this_node().rpc_sync<&ask_opponent>(node, *whom, timeout(0ms)); },
      [](const pong&) { return 0; },
      meet_into(whom),
  };
}

// The last of a chain answers; each other waits for the next.
opponent::behavior_type be_a_link(const std::vector<opponent>& next) {
  return {
      [=](const ping& q) { return next.empty() ? 0 : 1 + request(next[0], q).get(); },
      [](const pong&) { return 0; },
  };
}

// Waits at the other node's door before it answers.
opponent::behavior_type be_a_visitor(const std::string& node) {
  return {
      [=](const ping& q) {
        return this_node().rpc_sync<&wait_at_door>(node, q.times, timeout(0ms));
      },
      [](const pong&) { return 0; },
  };
}

// Blocks once more, after a wait that has failed.
task<int> go_on_after(future<int> wait, std::string node) {
  try {
    co_return co_await wait;
  } catch (const deadlock_error&) {
  }
  co_return this_node().rpc_sync<&bounce>(node, 1, node);
}

// A coroutine waits for the same answer as the handler, and then blocks, while the handler waits
// for it.
player::behavior_type play_on(const std::string& node) {
  const auto other = std::make_shared<opponent>();
  return {
      [=](const ping& q) {
        if (q.times == 0) return 0;
        const auto answer = request(*other, pong{q.times - 1});
        const auto after = go_on_after(answer, node);
        EXPECT_THROW(answer.get(), deadlock_error);
        return 10 + after.get();
      },
      [](const pong&) { return 0; },
      meet_into(other),
  };
}

std::string id_of(const player& who) { return std::to_string(who.id()); }

class deadlocks : public on_networks {
protected:
  // Two that have met, each on the node named.
  std::pair<player, player> make_players(const node& from, const char* here, const char* there) {
    auto a = from.spawn_on<play>(here);
    auto b = from.spawn_on<play>(there);
    EXPECT_TRUE(request(a, meet{b}).get() && request(b, meet{a}).get());
    return {a, b};
  }

  std::vector<node> start_with(unsigned threads) {
    rpc_options options;
    options.max_threads = threads;
    return start({"left", "right"}, options);
  }
};
TROUPE_ON_NETWORKS(deadlocks);

TEST_P(deadlocks, of_calls_deeper_than_the_threads_are_named) {
  auto nodes = start_with(4);
  for (const char* first : {"right", "left"}) {
    auto call = nodes[0].rpc_async<&bounce>(
        first, 64, first == std::string("left") ? "right" : "left", timeout(0ms));
    ASSERT_TRUE(call.wait_for(time_limit));
    const auto why = fault_of<deadlock_error>([&] { call.get(); });
    EXPECT_THAT(why.text,
                AllOf(HasSubstr("max_threads is 4"), HasSubstr("bounce"), HasSubstr(" on left"),
                      HasSubstr(" on right"), HasSubstr("co_await")));
    EXPECT_EQ(nodes[0].rpc_async<&bounce>("right", 3, "left").get_for(time_limit), 3);
  }
  shut_down(nodes);
}

TEST_P(deadlocks, hold_up_no_shutdown) {
  auto nodes = start_with(4);
  auto call = nodes[0].rpc_async<&bounce>("right", 64, "left", timeout(0ms));
  shut_down(nodes);
  EXPECT_THROW(call.get(), deadlock_error);
}

TEST_P(deadlocks, of_one_nodes_own_calls_are_named) {
  auto nodes = start_with(3);
  auto call = nodes[0].rpc_async<&bounce>("left", 64, "left", timeout(0ms));
  EXPECT_THROW(call.get_for(time_limit), deadlock_error);
  shut_down(nodes);
}

TEST_P(deadlocks, of_several_chains_end_them_all) {
  auto nodes = start_with(4);
  std::vector<future<int>> all;
  for (int i = 0; i < 6; ++i) {
    all.push_back(nodes[0].rpc_async<&bounce>("right", 16, "left", timeout(0ms)));
    all.push_back(nodes[1].rpc_async<&bounce>("left", 3, "right", timeout(0ms)));
  }
  for (auto& one : all) {
    ASSERT_TRUE(one.wait_for(time_limit));
    try {
      one.get();
    } catch (const deadlock_error&) {
    }
  }
  shut_down(nodes);
}

TEST_P(deadlocks, of_three_thousand_nested_calls_end_too) {
  for (const unsigned threads : {64u, rpc_options().max_threads}) {
    auto nodes = start_with(threads);
    auto call = nodes[0].rpc_async<&bounce>("right", 3'000, "left", timeout(0ms));
    ASSERT_TRUE(call.wait_for(time_limit));
    EXPECT_THAT(fault_of<deadlock_error>([&] { call.get(); }).text,
                AllOf(HasSubstr("max_threads is " + std::to_string(threads) + ':'),
                      HasSubstr("more before")));
    shut_down(nodes);
  }
}

// What the error advises.
TEST_P(deadlocks, do_not_come_to_coroutines) {
  auto nodes = start_with(2);
  EXPECT_EQ(nodes[0].rpc_async<&bounce_softly>("right", 64, "left").get_for(time_limit), 64);
  shut_down(nodes);
}

TEST_P(deadlocks, of_actors_that_ask_one_another_are_named) {
  auto nodes = start({"left", "right"});
  for (const char* home : {"right", "left"}) {  // on two nodes, and on one
    const auto [a, b] = make_players(nodes[0], "left", home);
    auto call = request(a, ping{2});
    ASSERT_TRUE(call.wait_for(time_limit));
    EXPECT_THAT(
        fault_of<deadlock_error>([&] { call.get(); }).text,
        AllOf(HasSubstr("ping of actor " + id_of(a) + " on left"),
              HasSubstr("pong of actor " + id_of(b) + " on " + home), HasSubstr("co_await")));
  }
  shut_down(nodes);
}

// The wait of the lower rank fails.
TEST_P(deadlocks, let_what_continues_a_failed_wait_block_again) {
  auto nodes = start({"left", "right"});
  auto a = nodes[0].spawn_on<play_on>("left", std::string("right"));
  auto b = nodes[0].spawn_on<play>("right");
  EXPECT_TRUE(request(a, meet{b}).get() && request(b, meet{a}).get());
  EXPECT_EQ(request(a, ping{2}).get_for(time_limit), 11);
  shut_down(nodes);
}

TEST_P(deadlocks, of_actors_that_ask_one_another_at_once_end) {
  auto nodes = start({"left", "right"});
  int failed = 0;
  for (int i = 0; i < 50 && failed == 0; ++i) {
    const auto [a, b] = make_players(nodes[0], "left", "right");
    std::vector<future<int>> both{request(a, ping{1}), request(b, ping{1})};
    for (auto& call : both) {
      ASSERT_TRUE(call.wait_for(time_limit));
      try {
        EXPECT_EQ(call.get(), 1);
      } catch (const deadlock_error&) {
        ++failed;
      } catch (const actor_down&) {  // the actor that it asked has ended, with that error
        ++failed;
      }
    }
  }
  shut_down(nodes);
}

TEST_P(deadlocks, of_an_actor_and_a_function_are_named) {
  auto nodes = start({"left", "right"});
  auto a = nodes[0].spawn_on<play_by_function>("left", std::string("right"));
  EXPECT_TRUE(request(a, meet{a}).get());
  auto call = request(a, ping{1});
  ASSERT_TRUE(call.wait_for(time_limit));
  EXPECT_THAT(fault_of<deadlock_error>([&] { call.get(); }).text,
              AllOf(HasSubstr("ping of actor " + id_of(a)), HasSubstr("ask_opponent on right")));
  shut_down(nodes);
}

TEST_P(deadlocks, of_actors_deeper_than_the_threads_are_named) {
  auto nodes = start_with(4);
  std::vector<opponent> next;
  for (int i = 0; i <= 40; ++i) next = {nodes[0].spawn_on<be_a_link>(i % 2, next)};
  auto call = request(next[0], ping{});
  ASSERT_TRUE(call.wait_for(time_limit));
  EXPECT_THAT(fault_of<deadlock_error>([&] { call.get(); }).text, HasSubstr("max_threads is 4"));
  shut_down(nodes);
}

// Passes on what it is asked.
player::behavior_type pass_on(player::pointer self) {
  const auto other = std::make_shared<opponent>();
  return {
      [=](const ping& q) { return self->delegate(*other, q); },
      [=](const pong& q) { return self->delegate(*other, q); },
      meet_into(other),
  };
}

// The first asks the second, which passes that on to the third, which asks the first.
TEST_P(deadlocks, are_seen_through_an_actor_that_delegates) {
  auto nodes = start({"left", "right"});
  for (const char* home : {"left", "right"}) {
    auto a = nodes[0].spawn_on<play>("left");
    auto b = nodes[0].spawn_on<pass_on>(home);
    auto c = nodes[0].spawn_on<play>(home);
    EXPECT_TRUE(request(a, meet{b}).get() && request(b, meet{c}).get() &&
                request(c, meet{a}).get());
    auto call = request(a, ping{2});
    ASSERT_TRUE(call.wait_for(time_limit));
    EXPECT_THAT(fault_of<deadlock_error>([&] { call.get(); }).text,
                AllOf(HasSubstr("ping of actor " + id_of(a) + " on left"),
                      HasSubstr("pong of actor " + id_of(c) + " on " + home)));
  }
  shut_down(nodes);
}

// Each attempt has a limit, and so has the whole call.
TEST_P(deadlocks, of_calls_with_a_retry_are_named) {
  auto nodes = start_with(4);
  auto call = nodes[0].rpc_async<&bounce_again>("right", 64, "left", timeout(0ms));
  ASSERT_TRUE(call.wait_for(time_limit));
  EXPECT_THAT(fault_of<deadlock_error>([&] { call.get(); }).text,
              AllOf(HasSubstr("max_threads is 4"), HasSubstr("bounce_again")));
  shut_down(nodes);
}

TEST_P(deadlocks, of_calls_with_futures_among_their_arguments_are_named) {
  auto nodes = start_with(4);
  auto call = nodes[0].rpc_async<&bounce_later>("right", 64, "left", timeout(0ms));
  ASSERT_TRUE(call.wait_for(time_limit));
  EXPECT_THAT(fault_of<deadlock_error>([&] { call.get(); }).text,
              AllOf(HasSubstr("max_threads is 4"), HasSubstr("bounce_later")));
  shut_down(nodes);
}

// ---- What is slow is no deadlock

deadlock::held_waits& waits_of(const node& one) { return one.core().deadlocks().waits(); }

// Once so many handlers wait, has the nodes look at them several times, however slow the machine.
void look_at_waits(const std::vector<node>& nodes, std::size_t count) {
  auto later = clock::now();
  ASSERT_TRUE(eventually([&] {
    later += 1h;
    std::size_t waiting = 0;
    for (const auto& one : nodes) {
      auto next = never;
      waiting += waits_of(one).take_due(later, next).size();
    }
    return waiting >= count;
  }));
  for (int i = 0; i < 5; ++i) {
    later += 1h;
    for (const auto& one : nodes) one.core().deadlocks().run_timer(later);
    std::this_thread::sleep_for(50ms);  // in which they ask each other
  }
}

// Longer than it takes until a wait is looked at, several times.
constexpr auto long_enough = 700ms;

TEST_P(deadlocks, are_not_seen_where_all_threads_wait_for_a_slow_node) {
  auto nodes = start_with(4);
  const shared_door door;
  std::vector<future<int>> all;
  for (int i = 0; i < 4; ++i)
    all.push_back(nodes[0].rpc_async<&ask_for>("right", "left", i, timeout(0ms)));
  ASSERT_TRUE(door->wait_for(4));
  for (int i = 4; i < 8; ++i)
    all.push_back(nodes[1].rpc_async<&ask_for>("right", "left", i, timeout(0ms)));
  look_at_waits(nodes, 4);
  for (const auto& one : all) EXPECT_FALSE(one.ready());
  door->open();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(all[i].get_for(time_limit), i);
  shut_down(nodes);
}

using kept = caf::typed_response_promise<int>;

// What a keeper has been asked, so that somebody else answers it.
class kept_promise {
public:
  static void put(kept one) {
    const std::lock_guard lock(mutex());
    slot() = std::move(one);
  }
  static bool there() {
    const std::lock_guard lock(mutex());
    return slot().has_value();
  }
  static void keep_with(int answer) {
    const std::lock_guard lock(mutex());
    slot()->deliver(answer);
    slot().reset();
  }

private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::optional<kept>& slot() {
    static std::optional<kept> one;
    return one;
  }
};

using keeper = actor<answers<keep_it, int>, accepts<ask_back>>;
keeper::behavior_type keep(keeper::pointer self) {
  return {
      [self](const keep_it&) {
        auto promise = self->make_response_promise<int>();
        kept_promise::put(promise);
        return promise;
      },
      [](const ask_back& message) { request(message.whom, ping{0}).get(); },
  };
}

opponent::behavior_type ask_keeper(const keeper& other) {
  return {
      [=](const ping& q) { return q.times == 0 ? 0 : request(other, keep_it{}).get(); },
      [](const pong&) { return 0; },
  };
}

// The actor waits for the keeper, and the keeper's handler for the actor; but the answer is in
// other hands.
TEST_P(deadlocks, are_not_seen_where_a_promise_is_kept_elsewhere) {
  auto nodes = start({"left", "right"});
  for (const char* home : {"left", "right"}) {
    auto other = nodes[0].spawn_on<keep>(home);
    auto a = nodes[0].spawn_on<ask_keeper>("left", other);
    auto call = request(a, ping{1});
    ASSERT_TRUE(eventually([] { return kept_promise::there(); }));
    send(other, ask_back{a});
    look_at_waits(nodes, 2);
    EXPECT_FALSE(call.ready());
    kept_promise::keep_with(7);
    EXPECT_EQ(call.get_for(time_limit), 7);
  }
  shut_down(nodes);
}

// Waits with a limit of its own, and goes on after that.
player::behavior_type play_patiently() {
  const auto other = std::make_shared<opponent>();
  return {
      [=](const ping&) { return request(*other, pong{1}).wait_for(long_enough) ? 1 : 2; },
      [](const pong&) { return 0; },
      meet_into(other),
  };
}

player::behavior_type play_back() {
  const auto other = std::make_shared<opponent>();
  return {
      [](const ping&) { return 0; },
      [=](const pong&) { return request(*other, pong{0}).get(); },
      meet_into(other),
  };
}

TEST_P(deadlocks, are_not_seen_where_a_wait_has_its_own_limit) {
  auto nodes = start({"left", "right"});
  auto a = nodes[0].spawn_on<play_patiently>("left");
  auto b = nodes[0].spawn_on<play_back>("right");
  EXPECT_TRUE(request(a, meet{b}).get() && request(b, meet{a}).get());
  EXPECT_EQ(request(a, ping{1}).get_for(time_limit), 2);
  shut_down(nodes);
}

// ---- Nodes that come back

deadlock::outlook look_at(const node& there, const deadlock::question& one) {
  return waits_of(there).look_at({one}).outlooks.at(0);
}

// The first node's handler waits for one of the second, which waits for a door. The next
// incarnation of either would use the same numbers.
void expect_known_of_this_incarnation_only(std::vector<node>& nodes) {
  std::vector<deadlock::held_handler> waiting;
  ASSERT_TRUE(eventually([&] {
    auto next = never;
    waiting = waits_of(nodes[0]).take_due(clock::now() + 1h, next);
    return !waiting.empty();
  }));
  ASSERT_EQ(waiting.size(), 1u);
  const auto asked = waiting[0].waits_for;
  EXPECT_EQ(asked.asker.rank, 0u);
  EXPECT_EQ(asked.at.rank, 1u);
  EXPECT_TRUE(
      eventually([&] { return look_at(nodes[1], asked).what == deadlock::prospect::handler; }));
  auto of_next = asked;
  ++of_next.asker.number;
  EXPECT_EQ(look_at(nodes[1], of_next).what, deadlock::prospect::open);
  auto to_next = asked;
  ++to_next.at.number;
  EXPECT_EQ(look_at(nodes[1], to_next).what, deadlock::prospect::open);
}

TEST_P(deadlocks, know_a_call_by_the_incarnations_of_both_nodes) {
  auto nodes = start({"left", "right"});
  const shared_door door;
  auto call = nodes[0].rpc_async<&ask_over>("left", "right", "left", 7, timeout(0ms));
  ASSERT_TRUE(door->wait_for(1));
  expect_known_of_this_incarnation_only(nodes);
  door->open();
  EXPECT_EQ(call.get_for(time_limit), 7);
  shut_down(nodes);
}

TEST_P(deadlocks, know_an_actors_request_by_the_incarnations_of_both_nodes) {
  auto nodes = start({"left", "right"});
  const shared_door door;
  auto last = nodes[0].spawn_on<be_a_visitor>("right", std::string("left"));
  auto first = nodes[0].spawn_on<be_a_link>("left", std::vector<opponent>{last});
  auto call = request(first, ping{7});
  ASSERT_TRUE(door->wait_for(1));
  expect_known_of_this_incarnation_only(nodes);
  door->open();
  EXPECT_EQ(call.get_for(time_limit), 8);
  shut_down(nodes);
}

}  // namespace

}  // namespace troupe::test
