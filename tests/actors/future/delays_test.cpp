// Messages that come later: to actors here and on other nodes, once and again.
#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"

namespace troupe::test {

struct note_later {
  counter whom;
  int milliseconds = 0;
};
TROUPE_MESSAGE(note_later, whom, milliseconds)
struct tick {
  int left = 0;
};
TROUPE_MESSAGE(tick, left)

namespace {

class delays : public on_networks {};
TROUPE_ON_NETWORKS(delays);

using delayer = actor<answers<note_later>, accepts<tick>>;

// Notes for counters after a while; with each tick one for its own, and a tick to go on.
delayer::behavior_type delay_notes(delayer::pointer self, counter own) {
  return {
      [self](const note_later& x) {
        self->delayed_send(x.whom, std::chrono::milliseconds(x.milliseconds), note{1});
      },
      [self, own](const tick& x) {
        self->send(own, note{1});
        if (x.left > 0) self->delayed_send(self, 1ms, tick{x.left - 1});
      },
  };
}

TEST_P(delays, pass_before_a_message_comes) {
  auto nodes = start({"a", "b"});
  for (int at : {0, 1}) {
    auto c = nodes[0].spawn_on<count_from>(at, 0);
    auto t = nodes[0].spawn(delay_notes, c);
    const auto begun = clock::now();
    for (int delay : {80, 60, 40}) request(t, note_later{c, delay}).get();
    EXPECT_TRUE(eventually([&] { return request(c, total{}).get() == 3; }));
    EXPECT_GE(clock::now() - begun, 80ms);
  }
}

TEST_P(delays, drive_an_actor_on_and_on) {
  auto nodes = start({"a", "b"});
  for (int at : {0, 1}) {
    auto c = nodes[0].spawn_on<count_from>(1 - at, 0);
    auto t = nodes[0].spawn_on<delay_notes>(at, c);
    const auto begun = clock::now();
    send(t, tick{30});
    EXPECT_TRUE(eventually([&] { return request(c, total{}).get() == 31; }));
    EXPECT_GE(clock::now() - begun, 30ms);
  }
}

// Nor do they end with somebody else's.
TEST_P(delays, do_not_outlast_their_node) {
  const int others = living_counters;
  auto nodes = start({"a", "b"});
  {
    auto there = nodes[0].spawn_on<count_from>("b", 0);
    auto here = nodes[0].spawn(count_from, 0);
    auto t = nodes[0].spawn(delay_notes, here);
    request(t, note_later{there, 3'600'000}).get();
    request(t, note_later{here, 3'600'000}).get();
    request(t, note_later{there, 1}).get();
    EXPECT_TRUE(eventually([&] { return request(there, total{}).get() == 1; }));
    nodes[1].shutdown(false);
    request(t, note_later{there, 1}).get();
    request(t, note_later{there, 3'600'000}).get();
    request(t, note_later{here, 1}).get();
    EXPECT_TRUE(eventually([&] { return request(here, total{}).get() == 1; }));
    EXPECT_TRUE(eventually([&] { return living_counters == others + 1; })) << "those of the other";
    const auto begun = clock::now();
    nodes[0].shutdown(false);
    EXPECT_LT(clock::now() - begun, time_limit) << "it has waited for what is due in an hour";
  }
  nodes.clear();
  EXPECT_TRUE(eventually([&] { return living_counters == others; }))
      << "what is due in an hour keeps an actor";
}

}  // namespace
}  // namespace troupe::test
