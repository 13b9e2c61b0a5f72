// A slow receiver slows its senders, whoever they are, and nobody waits for ever.

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"
#include "troupe/actors/simulation/simulation.hpp"

namespace troupe::test {

namespace {

struct stuff {
  at::Tensor bytes;
};
TROUPE_MESSAGE(stuff, bytes)

using slow_reader = actor<accepts<stuff>, answers<total, int>>;

// Takes nothing up before the door is open.
slow_reader::behavior_type read_slowly() {
  const auto seen = std::make_shared<int>(0);
  return {[seen, door = shared_door::current()](const stuff&) {
            door->pass();
            ++*seen;
          },
          [seen](const total&) { return *seen; }};
}

at::Tensor bytes(std::int64_t size) { return at::zeros({size}, at::kByte); }

rpc_options with_window(std::uint32_t messages, std::uint64_t size = 1 << 30) {
  rpc_options options;
  options.window = {messages, size};
  return options;
}

class windows : public on_networks {
protected:
  void start(const rpc_options& options) {
    nodes = on_networks::start({"a", "b"}, options);
    to = nodes[0].spawn_on<read_slowly>("b");
  }

  // Sends until a sender stands; how many it sent.
  int fill() {
    int sent = 0;
    for (;; ++sent) {
      try {
        troupe::send(to, stuff{bytes(1000)}, no_wait);
      } catch (const overloaded_error& e) {
        EXPECT_EQ(e.node(), "b");
        EXPECT_THAT(e.what(), testing::HasSubstr("window"));
        return sent;
      }
    }
  }

  shared_door door;
  std::vector<node> nodes;
  slow_reader to;
};

int twice(int x) { return 2 * x; }

TEST_P(windows, hold_a_sender_until_its_messages_are_taken_up) {
  start(with_window(16));
  const int most = fill();
  EXPECT_GE(most, 12);  // a quarter may have been taken up and not yet reported
  EXPECT_LE(most, 17);  // one is being read
  std::atomic<int> sent{0};
  auto sender = std::async(std::launch::async, [&] {
    for (; sent < 500; ++sent) send(to, stuff{bytes(1000)});
  });
  EXPECT_EQ(sender.wait_for(100ms), std::future_status::timeout);
  EXPECT_LE(sent, 1);
  door->open();
  sender.get();
  EXPECT_EQ(request(to, total{}).get_for(time_limit), most + 500);
  shut_down(nodes);
}

TEST_P(windows, count_bytes_too_and_let_any_one_message_in) {
  start(with_window(1'000'000, 100'000));
  EXPECT_LE(fill(), 135);  // a quarter more, since they are small
  door->open();
  troupe::send(to, stuff{bytes(10'000'000)});
  request(to, total{}).get_for(time_limit);
  shut_down(nodes);
}

TEST_P(windows, full_of_large_messages_let_small_ones_pass) {
  start(with_window(1'000'000, 1'000'000));
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) send(to, stuff{bytes(100'000)}, no_wait);
      },
      overloaded_error);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(nodes[0].rpc_sync<&twice>("b", i, no_wait), 2 * i);
  int small = 0;
  EXPECT_THROW(
      {
        for (; small < 100'000; ++small) send(to, stuff{bytes(10)}, no_wait);
      },
      overloaded_error);
  EXPECT_GE(small, 100);  // a quarter of a million bytes, in messages of some hundred
  EXPECT_LE(small, 20'000);
  EXPECT_THROW(send(to, stuff{bytes(100'000)}, no_wait), overloaded_error);
  door->open();
  EXPECT_EQ(nodes[0].rpc_sync<&twice>("b", 21), 42);
  shut_down(nodes);
}

TEST_P(windows, let_answers_and_the_other_direction_pass) {
  start(with_window(16));
  const int most = fill();
  EXPECT_EQ(nodes[1].rpc_sync<&twice>("a", 21), 42);
  EXPECT_THROW(nodes[0].rpc_sync<&twice>("b", 21, no_wait), overloaded_error);
  EXPECT_THROW(request(to, total{}, no_wait).get(), overloaded_error);
  auto why = fault_of<rpc_timeout>([&] { nodes[0].rpc_sync<&twice>("b", 1, timeout(50ms)); });
  EXPECT_EQ(why.node, "b");
  EXPECT_EQ(why.limit, 50ms);
  EXPECT_THAT(why.function, testing::HasSubstr("twice"));
  door->open();
  EXPECT_EQ(nodes[0].rpc_sync<&twice>("b", 21), 42);
  EXPECT_EQ(request(to, total{}).get_for(time_limit), most);
  shut_down(nodes);
}

TEST_P(windows, fail_where_the_node_is_configured_to) {
  auto options = with_window(16);
  options.overload = when_full::fail;
  start(options);
  fill();
  EXPECT_THROW(nodes[0].rpc_sync<&twice>("b", 21), overloaded_error);
  EXPECT_THROW(request(to, total{}).get(), overloaded_error);
  EXPECT_THROW(troupe::send(to, stuff{bytes(1)}), overloaded_error);
  door->open();
  EXPECT_TRUE(eventually([&] {
    try {
      return nodes[0].rpc_sync<&twice>("b", 21) == 42;
    } catch (const overloaded_error&) {
      return false;
    }
  }));
  shut_down(nodes);
}

TEST_P(windows, end_with_the_node_that_waits) {
  start(with_window(16));
  fill();
  auto call = std::async(std::launch::async, [&] { return nodes[0].rpc_sync<&twice>("b", 1); });
  EXPECT_EQ(call.wait_for(50ms), std::future_status::timeout);
  nodes[0].shutdown(false);
  EXPECT_THROW(call.get(), not_initialized);
  door->open();
}

TEST_P(windows, may_be_left_open) {
  start(with_window(0));
  for (int i = 0; i < 20'000; ++i) send(to, stuff{bytes(1)}, no_wait);
  door->open();
  EXPECT_EQ(request(to, total{}).get_for(time_limit), 20'000);
  shut_down(nodes);
}

TROUPE_ON_NETWORKS(windows);

// ---- Cycles

using reader = actor<accepts<note>>;

struct set_next {
  reader next;
};
TROUPE_MESSAGE(set_next, next)

struct flood {
  int count = 0;
};
TROUPE_MESSAGE(flood, count)

using flooder = actor<answers<set_next>, accepts<flood>, accepts<note>, answers<total, int>>;

// Told to flood, it sends notes to the next from within its handler, and takes none up meanwhile.
flooder::behavior_type flood_next() {
  const auto seen = std::make_shared<int>(0);
  const auto next = std::make_shared<reader>();
  return {[next](const set_next& x) { *next = x.next; },
          [next](const flood& x) {
            for (int i = 0; i < x.count; ++i) send(*next, note{1});
          },
          [seen](const note&) { ++*seen; }, [seen](const total&) { return *seen; }};
}

simulation* simulated = nullptr;

slow_reader::behavior_type sleep_over_each() {
  return {[](const stuff&) { simulated->sleep(10s); }, [](const total&) { return 0; }};
}

int pushes = 0;
int taken = 0;

slow_reader::behavior_type read_in_10_ms() {
  return {[](const stuff&) {
            simulated->sleep(10ms);
            ++taken;
          },
          [](const total&) { return taken; }};
}

bool pushing = false;

// In its handler, for as long as the test looks.
void push_at(const slow_reader& to) {
  for (; pushing; ++pushes) send(to, stuff{bytes(10)});
}

TEST(a_full_window, ends_with_the_node_that_is_waited_for) {
  simulation_options options{.seed = 1};
  options.node.window = {16, 1 << 20};
  simulation cluster(options);
  simulated = &cluster;
  const auto nodes = cluster.start(2);
  const auto to = nodes[0].spawn_on<sleep_over_each>(1);
  int sent = 0;
  auto sending = cluster.spawn([&] {
    for (; sent < 100; ++sent) send(to, stuff{bytes(10)});
  });
  auto calling = cluster.spawn([&] { nodes[0].rpc_sync<&twice>(1, 1); });
  cluster.sleep(1s);
  EXPECT_LE(sent, 17);
  EXPECT_FALSE(calling.ready());
  cluster.crash(1);
  EXPECT_THROW(calling.get(), peer_lost);
  EXPECT_TRUE(sending.wait_for(1s));  // a sender without a request gets no error
  EXPECT_EQ(sent, 100);
}

// Two that push at each other's slow readers, from handlers, are slow; no cycle stands still.
TEST(a_full_window, does_not_grow_while_its_messages_are_taken_up) {
  simulation_options options{.seed = 3};
  options.node.window = {64, 1 << 20};
  simulation cluster(options);
  simulated = &cluster;
  const auto nodes = cluster.start(2);
  taken = pushes = 0;
  pushing = true;
  std::vector<slow_reader> readers;
  for (const int rank : {0, 1}) readers.push_back(nodes[0].spawn_on<read_in_10_ms>(rank));
  std::vector<future<void>> pushers;
  for (const int rank : {0, 1})
    pushers.push_back(nodes[0].rpc_async<&push_at>(rank, readers[1 - rank], timeout(0ms)));
  cluster.sleep(20s);
  const int got = taken;
  pushing = false;  // a send to a node that has ended returns at once
  EXPECT_GT(got, 3'000);
  EXPECT_LT(pushes, got + 2 * 64 + 64);
}

struct be_flooded {
  slow_reader me;
  int count = 0;
};
TROUPE_MESSAGE(be_flooded, me, count)

using flooded = actor<accepts<stuff>, answers<total, int>, answers<be_flooded, int>>;

int push_so_many(const slow_reader& to, int count) {
  for (int i = 0; i < count; ++i) send(to, stuff{bytes(10)});
  return count;
}

// Has another node push at it, and waits for that in its handler.
flooded::behavior_type ask_for_a_flood() {
  const auto seen = std::make_shared<int>(0);
  return {[seen](const stuff&) { ++*seen; }, [seen](const total&) { return *seen; },
          [](const be_flooded& x) {
            return this_node().rpc_sync<&push_so_many>(1, x.me, x.count, timeout(0ms));
          }};
}

TEST(a_full_window, of_a_handler_that_waits_for_the_sender_s_answer_grows) {
  simulation_options options{.seed = 4};
  options.node.window = {16, 1 << 20};
  simulation cluster(options);
  const auto nodes = cluster.start(2);
  const auto reader = nodes[0].spawn(ask_for_a_flood);
  auto flooding = cluster.spawn([&] {
    EXPECT_EQ(request(reader, be_flooded{slow_reader(reader), 500}, timeout(0ms)).get(), 500);
  });
  EXPECT_TRUE(flooding.wait_for(100s));
  EXPECT_TRUE(cluster.wait_until([&] { return request(reader, total{}).get() == 500; }, 10s));
}

class cycles : public testing::TestWithParam<int> {};

TEST_P(cycles, of_handlers_that_flood_one_another_are_found) {
  const auto size = static_cast<std::size_t>(GetParam());
  simulation_options options{.seed = size};
  options.node.window = {16, 1 << 20};
  simulation cluster(options);
  const auto nodes = cluster.start(size);
  std::vector<flooder> all;
  for (std::size_t i = 0; i < size; ++i) all.push_back(nodes[0].spawn_on<flood_next>(i));
  for (std::size_t i = 0; i < size; ++i)
    request(all[i], set_next{reader(all[(i + 1) % size])}).get();
  for (auto& one : all) send(one, flood{1'000});
  for (auto& one : all)
    EXPECT_TRUE(cluster.wait_until([&] { return request(one, total{}).get() == 1'000; }, 60s));
}

TEST_P(cycles, are_found_by_threads_too) {
  rpc_options options;
  options.window = {16, 1 << 20};
  std::vector<std::string> names;
  for (int i = 0; i < GetParam(); ++i) names.push_back("n" + std::to_string(i));
  auto nodes = local_nodes(names, options);
  std::vector<flooder> all;
  for (const auto& name : names) all.push_back(nodes[0].spawn_on<flood_next>(name));
  for (std::size_t i = 0; i < all.size(); ++i)
    request(all[i], set_next{reader(all[(i + 1) % all.size()])}).get_for(time_limit);
  for (auto& one : all) send(one, flood{200});
  for (auto& one : all)
    EXPECT_TRUE(eventually([&] { return request(one, total{}).get_for(time_limit) == 200; }));
  all.clear();
  shut_down(nodes);
}

INSTANTIATE_TEST_SUITE_P(sizes, cycles, testing::Values(2, 3, 5));

}  // namespace

}  // namespace troupe::test
