// Handlers that wait for one another: any number, any depth, without running out of threads.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"

namespace troupe::test {

struct go_on {
  int depth = 0;
};
TROUPE_MESSAGE(go_on, depth)

struct ask_yourself {};
TROUPE_MESSAGE(ask_yourself)

struct ask_door {
  int x = 0;
};
TROUPE_MESSAGE(ask_door, x)

namespace {

class blocking : public on_networks {};
TROUPE_ON_NETWORKS(blocking);

using link = actor<answers<go_on, int>, answers<ask_door, int>>;

int bounce(int depth, const std::string& other) {
  if (depth == 0) return 0;
  auto here = this_node();
  return 1 + here.rpc_sync<&bounce>(other, depth - 1, here.name());
}

int around(int depth) {
  if (depth == 0) return 0;
  auto here = this_node();
  return 1 + here.rpc_sync<&around>((here.rank() + 1) % here.world_size(), depth - 1);
}

at::Tensor bounce_tensor(const at::Tensor& x, int depth, const std::string& other) {
  if (depth == 0) return x;
  auto here = this_node();
  return here.rpc_sync<&bounce_tensor>(other, x + 1, depth - 1, here.name());
}

int pass_the_door(int x) {
  shared_door::current()->pass();
  return x;
}

// Waits for the other node, which waits at the door.
int wait_for_door_of(const std::string& other, int x) {
  return this_node().rpc_sync<&pass_the_door>(other, x);
}

// The last of a chain answers; each other waits for the next.
link::behavior_type be_a_link(link::pointer, std::vector<link> next) {
  return {
      [=](const go_on& q) {
        return next.empty() ? 0 : 1 + request(next[0], go_on{q.depth - 1}).get();
      },
      [=](const ask_door& q) {
        return next.empty() ? pass_the_door(q.x) : request(next[0], q).get();
      },
  };
}

int ask_link(const link& whom, int x) { return request(whom, ask_door{x}).get(); }

TEST_P(blocking, sixty_four_nested_calls_finish) {
  auto nodes = start({"a", "b"});
  EXPECT_EQ(nodes[0].rpc_async<&bounce>("b", 64, "a").get_for(time_limit), 64);
  EXPECT_EQ(nodes[0].rpc_async<&bounce>("a", 64, "a").get_for(time_limit), 64);
}

TEST_P(blocking, nested_calls_around_a_ring_finish) {
  auto nodes = start({"a", "b", "c"});
  EXPECT_EQ(nodes[0].rpc_async<&around>("b", 64).get_for(time_limit), 64);
}

TEST_P(blocking, nested_calls_with_tensors_finish) {
  auto nodes = start({"a", "b"});
  auto x = at::zeros({20'000});
  auto y = nodes[0].rpc_async<&bounce_tensor>("b", x, 32, "a").get_for(time_limit);
  EXPECT_TRUE(at::equal(y, x + 32));
}

TEST_P(blocking, many_nested_calls_at_once_finish) {
  auto nodes = start({"a", "b"});
  std::vector<future<int>> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(nodes[0].rpc_async<&bounce>("b", 16, "a"));
    all.push_back(nodes[1].rpc_async<&bounce>("a", 16, "b"));
  }
  for (auto& f : all) EXPECT_EQ(f.get_for(time_limit), 16);
}

TEST_P(blocking, sixty_four_handlers_that_wait_for_the_other_node_finish) {
  auto nodes = start({"a", "b"});
  const shared_door door;
  std::vector<future<int>> all;
  for (int i = 0; i < 64; ++i) all.push_back(nodes[0].rpc_async<&wait_for_door_of>("b", "a", i));
  ASSERT_TRUE(door->wait_for(64));
  for (auto& f : all) EXPECT_FALSE(f.ready());
  // Calls still get through.
  EXPECT_EQ(nodes[0].rpc_async<&bounce>("b", 4, "a").get_for(time_limit), 4);
  door->open();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(all[i].get_for(time_limit), i);
}

TEST_P(blocking, sixty_four_handlers_on_either_node_finish) {
  auto nodes = start({"a", "b"});
  const shared_door door;
  std::vector<future<int>> all;
  for (int i = 0; i < 64; ++i) {
    all.push_back(nodes[0].rpc_async<&wait_for_door_of>("b", "a", i));
    all.push_back(nodes[1].rpc_async<&wait_for_door_of>("a", "b", i));
  }
  ASSERT_TRUE(door->wait_for(128));
  door->open();
  for (int i = 0; i < 128; ++i) EXPECT_EQ(all[i].get_for(time_limit), i / 2);
}

TEST_P(blocking, a_chain_of_sixty_four_actors_finishes) {
  auto nodes = start({"a", "b"});
  std::vector<link> next;
  for (int i = 0; i <= 64; ++i) next = {nodes[0].spawn_on<be_a_link>(i % 2, next)};
  EXPECT_EQ(request(next[0], go_on{64}).get_for(time_limit), 64);
}

TEST_P(blocking, sixty_four_actors_that_wait_for_others_finish) {
  auto nodes = start({"a", "b"});
  const shared_door door;
  std::vector<link> chains;
  std::vector<future<int>> all;
  for (int i = 0; i < 64; ++i) {
    std::vector<link> last{nodes[0].spawn_on<be_a_link>(i % 2, std::vector<link>())};
    chains.push_back(nodes[0].spawn_on<be_a_link>((i + 1) % 2, last));
    all.push_back(request(chains.back(), ask_door{i}));
  }
  ASSERT_TRUE(door->wait_for(64));
  door->open();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(all[i].get_for(time_limit), i);
}

TEST_P(blocking, functions_and_actors_that_wait_for_one_another_finish) {
  auto nodes = start({"a", "b", "c"});
  const shared_door door;
  std::vector<link> ends;
  std::vector<future<int>> all;
  for (int i = 0; i < 20; ++i) {
    std::vector<link> last{nodes[0].spawn_on<be_a_link>(i % 3, std::vector<link>())};
    ends.push_back(nodes[0].spawn_on<be_a_link>((i + 1) % 3, last));
    all.push_back(nodes[0].rpc_async<&ask_link>((i + 2) % 3, ends.back(), i));
  }
  ASSERT_TRUE(door->wait_for(20));
  EXPECT_EQ(nodes[0].rpc_async<&around>("b", 9).get_for(time_limit), 9);
  door->open();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(all[i].get_for(time_limit), i);
}

TEST_P(blocking, continuations_may_wait_too) {
  auto nodes = start({"a", "b"});
  std::vector<future<int>> all;
  for (int i = 0; i < 32; ++i)
    all.push_back(nodes[0].rpc_async<&bounce>("b", 1, "a").then([](int x) {
      return x + this_node().rpc_sync<&bounce>("b", 3, "a");
    }));
  for (auto& f : all) EXPECT_EQ(f.get_for(time_limit), 4);
}

// Waits for itself: through its own handle, or through one that has been elsewhere.
using narcissus = actor<answers<ask_yourself, int>, answers<total, int>>;
narcissus same(const narcissus& x) { return x; }

narcissus::behavior_type look_into_the_water(narcissus::pointer self, bool from_afar) {
  return {
      [=](const ask_yourself&) {
        narcissus me(self);
        if (from_afar) me = this_node().rpc_sync<&same>("b", me);
        return request(me, total{}).get();
      },
      [](const total&) { return 1; },
  };
}

TEST_P(blocking, an_actor_that_waits_for_itself_gets_an_error) {
  auto nodes = start({"a", "b"});
  for (bool from_afar : {false, true})
    for (int at : {0, 1}) {
      auto n = nodes[0].spawn_on<look_into_the_water>(at, from_afar);
      auto f = request(n, ask_yourself{});
      ASSERT_TRUE(f.wait_for(time_limit)) << at << from_afar;
      EXPECT_EQ(fault_of<deadlock_error>([&] { f.get(); }).node, nodes[at].name());
    }
}

// While it lives, no thread can be made: none has room for a stack of that size.
class no_more_threads {
public:
  no_more_threads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 48);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~no_more_threads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

private:
  pthread_attr_t before_;
};

TEST_P(blocking, goes_on_when_no_thread_can_be_made) {
  auto nodes = start({"a", "b"});
  const shared_door door;
  std::vector<future<int>> all;
  {
    const no_more_threads limit;
    EXPECT_THROW(std::thread([] {}).join(), std::system_error);
    for (int i = 0; i < 16; ++i) all.push_back(nodes[0].rpc_async<&pass_the_door>("b", i));
    ASSERT_TRUE(door->wait_for(1));  // of two threads, one is the timer thread
    EXPECT_FALSE(all[0].wait_for(20ms));
    EXPECT_LE(nodes[1].debug_info().threads, 8u);
    EXPECT_ANY_THROW(local_nodes({"c"}));
  }
  door->open();
  for (int i = 0; i < 16; ++i) EXPECT_EQ(all[i].get_for(time_limit), i);
}

void shut_down_here() { this_node().shutdown(); }

TEST_P(blocking, a_handler_that_shuts_its_own_node_down_gets_an_error) {
  auto nodes = start({"a", "b"});
  EXPECT_THROW(nodes[0].rpc_sync<&shut_down_here>("b"), deadlock_error);
  EXPECT_THROW(nodes[0].rpc_sync<&shut_down_here>("a"), deadlock_error);
  EXPECT_EQ(nodes[0].rpc_sync<&bounce>("b", 2, "a"), 2);
}

}  // namespace
}  // namespace troupe::test
