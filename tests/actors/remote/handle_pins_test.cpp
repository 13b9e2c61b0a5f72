// A node that passes on a handle keeps its own until the owner says that it has been claimed.
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/remote/remote_actors_internal.hpp"
#include "troupe/actors/simulation/simulation.hpp"

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/keeper.hpp"

namespace troupe::test {
namespace {

// By rank: nobody to speak of, the actor's owner, the node that passes handles on, receivers.
constexpr std::uint32_t owner = 1, holder = 2, receiver = 3, other = 4;

std::optional<promise<counter>> awaited;

future<counter> counter_later() { return awaited.emplace().get_future(); }

class handle_pins : public testing::Test {
protected:
  handle_pins() {
    living_counters = 0;
    nodes = cluster.start(5);
  }

  // The claims of `of` take that long.
  void delay_claims(std::uint32_t of, std::chrono::nanoseconds latency) {
    cluster.network().set_link(of, owner, {.latency = latency});
  }

  // The holder gives its handle of a new actor of the owner to a keeper on `receiver`.
  keeper pass_on(std::uint32_t receiver) {
    const auto passed = nodes[holder].spawn_on<counter_actor>(owner, 0);
    auto to = nodes[holder].spawn_on<keep_them>(receiver);
    EXPECT_EQ(request(to, keep_one{passed}).get(), 1);
    return to;
  }

  // The holder is lost and joins again.
  void bring_back_holder() {
    cluster.crash(holder);
    ASSERT_TRUE(cluster.wait_until([&] { return nodes[owner].world_size() == 4; }, 500ms));
    nodes[holder] = cluster.join("worker2", holder);
  }

  // The claim has arrived: the keeper alone keeps the counter.
  void expect_claimed(const keeper& by) {
    EXPECT_EQ(held(), 1u);
    EXPECT_EQ(living_counters, 1);
    request(by, drop_all{}).get();
    cluster.sleep(3s);
    EXPECT_EQ(living_counters, 0);
  }

  std::size_t held() const { return nodes[holder].debug_info().remote_handles; }

  simulation cluster{{.seed = 1}};
  std::vector<node> nodes;
};

TEST_F(handle_pins, last_until_the_claim_arrives) {
  delay_claims(receiver, 1s);
  const auto to = pass_on(receiver);
  cluster.sleep(900ms);
  EXPECT_EQ(held(), 2u) << "the keeper and the counter";
  cluster.sleep(1s);
  expect_claimed(to);
}

// The next incarnation has pins of the same numbers.
TEST_F(handle_pins, are_not_dropped_by_claims_of_what_an_earlier_incarnation_passed_on) {
  delay_claims(receiver, 1s);
  pass_on(receiver);
  ASSERT_NO_FATAL_FAILURE(bring_back_holder());
  EXPECT_EQ(living_counters, 0) << "the one that was passed on was lost with its holder";
  delay_claims(other, 2s);
  const auto to = pass_on(other);
  cluster.sleep(1'500ms);
  EXPECT_EQ(held(), 2u);
  cluster.sleep(2s);
  expect_claimed(to);
}

// Neither for what another node says, nor for another node's claim.
TEST_F(handle_pins, are_dropped_for_the_claim_of_their_receiver_alone) {
  delay_claims(receiver, 1s);
  const auto to = pass_on(receiver);
  auto& liar = nodes[other].core();
  const auto say = [&](std::uint32_t to, auto... what) {
    EXPECT_TRUE(liar.actors().out().try_send_control(liar.find(to), handles_channel, what...));
  };
  const auto life = [&](std::uint32_t rank) { return liar.find(rank).incarnation; };
  for (std::uint64_t pin = 0; pin < 10; ++pin) {
    say(holder, control::unpin, pin, receiver, life(receiver));
    say(owner, control::claim, caf::actor_id{0}, holder, life(holder), pin);
  }
  cluster.sleep(500ms);
  EXPECT_EQ(held(), 2u);
  cluster.sleep(2s);
  EXPECT_EQ(held(), 1u);
  EXPECT_EQ(living_counters, 1);
}

// An answer to one that has come back since is not sent, and what it would have brought is
// nobody's.
TEST_F(handle_pins, of_an_answer_to_an_earlier_incarnation_hold_nothing) {
  const auto lost = nodes[holder].rpc_async<&counter_later>(owner);
  cluster.sleep(10ms);
  ASSERT_NO_FATAL_FAILURE(bring_back_holder());
  ASSERT_TRUE(awaited);
  awaited->set_value(nodes[owner].spawn<counter_actor>(0));
  awaited.reset();
  cluster.sleep(100ms);
  EXPECT_EQ(nodes[owner].debug_info().actors_held, 0u);
  EXPECT_EQ(living_counters, 0);
}

}  // namespace
}  // namespace troupe::test
