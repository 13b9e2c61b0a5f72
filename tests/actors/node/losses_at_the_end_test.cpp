// What a graceful shutdown reports of nodes that were lost, in simulations: what is lost when is no
// matter of chance there.
#include <deque>

#include "tests/actors/node/job.hpp"
#include "tests/log_lines.hpp"
#include "troupe/actors/simulation/simulation.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

std::deque<promise<int>> unkept;

future<int> answer_never() {
  unkept.emplace_back();
  return unkept.back().get_future();
}
future<int> answer_never_to(int) { return answer_never(); }
int three() { return 3; }
int ask_another(std::uint32_t whom) {
  return this_node().rpc_sync<&answer_never>(whom, timeout(0ms));
}

}  // namespace
}  // namespace troupe::test

TROUPE_IDEMPOTENT(&troupe::test::answer_never)

namespace troupe::test {
namespace {

class losses_at_the_end : public testing::Test {
protected:
  ~losses_at_the_end() override { unkept.clear(); }

  future<void> shut_down_aside(const node& which) {
    return cluster.spawn([which] { which.shutdown(); });
  }

  simulation cluster{{.seed = 21}};
  const std::vector<node> nodes = cluster.start(3);
  const log_lines lines;
};

// worker1 is lost while the others wait at the end, worker0 for the answer to `call`.
void expect_a_loss_of_one(simulation& cluster, const future<void>& first, const future<void>& third,
                          const future<int>& call) {
  cluster.sleep(1s);
  cluster.crash(1);
  EXPECT_THAT(fault_of<peer_lost>([&] { first.get(); }).text,
              HasSubstr("worker1 was lost before it had answered a call"));
  EXPECT_NO_THROW(third.get());
  EXPECT_THROW(call.get(), peer_lost);
}

TEST_F(losses_at_the_end, are_thrown_where_calls_were_promised_and_reported_everywhere) {
  const auto call = nodes[0].rpc_async<&answer_never>(1, timeout(0ms));
  const auto of_a_handler = nodes[0].rpc_async<&ask_another>(2, 1u, timeout(0ms));
  const auto first = shut_down_aside(nodes[0]);
  const auto third = shut_down_aside(nodes[2]);
  cluster.sleep(1s);
  EXPECT_FALSE(first.ready() || third.ready());
  cluster.crash(1);
  const auto why = fault_of<peer_lost>([&] { first.get(); });
  EXPECT_EQ(why.node, "worker1");
  EXPECT_THAT(why.text,
              HasSubstr("worker1 was lost before it had answered a call that this shutdown waited "
                        "for: rank 1 ('worker1') is not in the job any more"));
  // Calls of a handler, whose caller got the error.
  EXPECT_NO_THROW(third.get());
  EXPECT_THROW(call.get(), peer_lost);
  EXPECT_THROW(of_a_handler.get(), peer_lost);
  EXPECT_THROW(nodes[0].rpc_sync<&answer_never>(2), not_initialized);  // it has still ended
  EXPECT_EQ(lines.with("worker0: shut down without worker1, which was lost"), 1);
  EXPECT_EQ(lines.with("worker2: shut down without worker1, which was lost"), 1);
  EXPECT_EQ(lines.with("; 1 call or request to it was unanswered; "), 2);
}

TEST_F(losses_at_the_end, before_the_shutdown_are_reported) {
  cluster.crash(2);
  ASSERT_TRUE(cluster.wait_until(
      [&] { return nodes[0].world_size() == 2 && nodes[1].world_size() == 2; }, 100s));
  const auto first = shut_down_aside(nodes[0]);
  const auto second = shut_down_aside(nodes[1]);
  EXPECT_NO_THROW(first.get());
  EXPECT_NO_THROW(second.get());
  EXPECT_EQ(lines.with("worker0: shut down without worker2, which was lost"), 1);
  EXPECT_EQ(lines.with("worker1: shut down without worker2, which was lost"), 1);
}

TEST_F(losses_at_the_end, of_calls_that_are_made_again_are_no_failure) {
  const auto call = nodes[0].rpc_async<&answer_never>(1, timeout(0ms), retry(2));
  const auto first = shut_down_aside(nodes[0]);
  const auto third = shut_down_aside(nodes[2]);
  cluster.sleep(1s);
  cluster.crash(1);
  EXPECT_NO_THROW(first.get());
  EXPECT_NO_THROW(third.get());
  EXPECT_THAT(fault_of<peer_lost>([&] { call.get(); }).text, HasSubstr("after 2 attempts"));
}

TEST_F(losses_at_the_end, of_calls_that_waited_for_an_argument_are_thrown) {
  promise<int> argument;
  const auto call = nodes[0].rpc_async<&answer_never_to>(1, argument.get_future(), timeout(0ms));
  const auto first = shut_down_aside(nodes[0]);
  const auto third = shut_down_aside(nodes[2]);
  argument.set_value(1);
  expect_a_loss_of_one(cluster, first, third, call);
}

TEST_F(losses_at_the_end, of_a_node_that_has_come_back_are_reported_as_such) {
  cluster.crash(2);
  ASSERT_TRUE(cluster.wait_until(
      [&] { return nodes[0].world_size() == 2 && nodes[1].world_size() == 2; }, 100s));
  const auto again = cluster.join("worker2", 2);
  const auto first = shut_down_aside(nodes[0]);
  const auto second = shut_down_aside(nodes[1]);
  const auto third = shut_down_aside(again);
  for (const auto& end : {first, second, third}) EXPECT_NO_THROW(end.get());
  EXPECT_EQ(lines.with("worker0: an earlier worker2 was lost"), 1) << lines.text();
  EXPECT_EQ(lines.with("shut down without"), 0) << lines.text();
}

TEST_F(losses_at_the_end, are_thrown_of_calls_that_a_node_leaves_behind) {
  const auto call = nodes[0].rpc_async<&answer_never>(2, timeout(0ms));
  const auto first = shut_down_aside(nodes[0]);
  const auto second = shut_down_aside(nodes[1]);
  cluster.sleep(1s);
  EXPECT_FALSE(first.ready() || second.ready());
  nodes[2].leave();
  EXPECT_THAT(fault_of<peer_lost>([&] { first.get(); }).text,
              HasSubstr("worker2 has left before it had answered a call that this shutdown waited "
                        "for"));
  EXPECT_NO_THROW(second.get());
  EXPECT_THROW(call.get(), peer_lost);
  EXPECT_EQ(lines.with("shut down without"), 0) << lines.text();
}

TEST_F(losses_at_the_end, are_none_of_those_who_have_left) {
  nodes[2].leave();
  const auto first = shut_down_aside(nodes[0]);
  const auto second = shut_down_aside(nodes[1]);
  EXPECT_NO_THROW(first.get());
  EXPECT_NO_THROW(second.get());
  EXPECT_EQ(lines.with("shut down without"), 0) << lines.text();
}

TEST(ends, that_fail_in_several_ways_throw_the_gravest_and_log_the_others) {
  simulation_options strict{.seed = 22};
  strict.node.on_leaked_rref = leaked_rref::fail;
  simulation cluster(strict);
  const auto nodes = cluster.start(3);
  const log_lines lines;
  const auto kept = nodes[0].remote<&three>(2);
  EXPECT_EQ(kept.to_here(), 3);
  const auto call = nodes[0].rpc_async<&answer_never>(1, timeout(0ms));
  const auto first = cluster.spawn([node = nodes[0]] { node.shutdown(); });
  const auto third = cluster.spawn([node = nodes[2]] { node.shutdown(); });
  expect_a_loss_of_one(cluster, first, third, call);
  EXPECT_EQ(lines.with("worker0 still has 1 rref at the shutdown"), 1) << lines.text();
  unkept.clear();
}

}  // namespace
}  // namespace troupe::test
