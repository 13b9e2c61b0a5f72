// The end of nodes among what else a program does: CAF's own means, forks, an exit in a hurry.
#include <caf/scoped_actor.hpp>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"
#include "tests/forking.hpp"
#include "tests/free_port.hpp"

namespace troupe::test {
namespace {

constexpr int last_word = 7;

int one() { return 1; }

class node_end : public on_networks {};
TROUPE_ON_NETWORKS(node_end);

// CAF's logger stays with such a thread, and CAF's system would wait for it.
TEST_P(node_end, does_not_wait_for_threads_that_have_used_the_system) {
  auto nodes = start({"a", "b"});
  door used, over;
  std::thread user([&] {
    { caf::scoped_actor self(nodes[0].system()); }
    used.open();
    over.pass();
  });
  used.pass();
  auto ending = std::async(std::launch::async, [&] { shut_down(nodes); });
  EXPECT_EQ(ending.wait_for(time_limit), std::future_status::ready);
  over.open();
  user.join();
}

// A forked process has the node, but none of its threads.
TEST_P(node_end, leaves_a_forked_process_alone) {
  auto nodes = start({"a", "b"});
  EXPECT_EQ(in_child([&] {
              nodes.clear();
              return last_word;
            }),
            last_word);
  shut_down(nodes);
}

// The main thread's own variables are gone by then.
TEST(node_end, is_well_when_static_variables_go_with_the_process) {
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(in_child([&]() -> int {
                static promise<int> kept;
                static std::vector<node> nodes;
                nodes = local_nodes({"a", "b"});
                static auto there = nodes[0].remote<&one>("b");
                if (there.to_here() != 1) return 1;
                // Jobs that the thread runs itself, now and when the promise is dropped.
                static std::vector<future<int>> after;
                for (int k = 0; k < 50; ++k)
                  after.push_back(kept.get_future().then([](int x) { return x; }));
                static promise<int> other;
                static const auto next = other.get_future().then([](int x) { return x + 1; });
                other.set_value(1);
                std::exit(next.get() == 2 ? last_word : 1);
              }),
              last_word);
}

// How long rank 0 took to end at once, with another node that lives on.
clock::duration end_of_rank_0() {
  rpc_options options;
  options.init_method = "tcp://127.0.0.1:" + std::to_string(free_port());
  options.world_size = 2;
  std::vector<std::future<node>> joining;
  for (const std::uint32_t rank : {0, 1}) {
    options.rank = rank;
    options.name = "w" + std::to_string(rank);
    joining.push_back(std::async(std::launch::async, [options] { return init_rpc(options); }));
  }
  auto first = joining[0].get(), second = joining[1].get();
  const auto start = clock::now();
  first.shutdown(false);
  const auto took = clock::now() - start;
  second.shutdown(false);
  return took;
}

// Rank 0 keeps the store, and waits for the others' leave notices, five seconds at most, only when
// all end together. A machine may stand still for as long, but not each time.
TEST(node_end, at_once_is_at_once_also_on_rank_0) {
  int slow = 0;
  while (slow < 5 && end_of_rank_0() > 4s) ++slow;
  EXPECT_LT(slow, 5);
}

TEST(node_end, local_nodes_need_names_of_their_own) {
  EXPECT_THROW(local_nodes({"a", "a"}), invalid_argument);
  EXPECT_THROW(local_nodes({"a", ""}), invalid_argument);
  EXPECT_THROW(local_nodes({"a b"}), invalid_argument);
}

}  // namespace
}  // namespace troupe::test
