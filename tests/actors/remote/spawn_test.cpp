// Actors made here and on other nodes, from classes and from functions, and what goes wrong.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <troupe/actor_stub.hpp>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"

namespace troupe::test {
namespace {

class spawning : public on_networks {};
TROUPE_ON_NETWORKS(spawning);

// Adds to the counter that it was given, as much as its tensor sums up to.
using adder = actor<answers<total, int>>;

adder::behavior_type add_for(adder::pointer, counter target, at::Tensor amounts,
                             std::string label) {
  return {[=](const total&) {
    if (label != "label") throw std::logic_error("the label is " + label);
    return request(target, add{amounts.sum().item<int>()}).get();
  }};
}

counter::behavior_type without_a_model() { throw std::runtime_error("no file model.pt"); }

TEST_P(spawning, logs_what_a_behaviour_function_throws) {
  testing::internal::CaptureStderr();
  auto nodes = start({"a", "b"});
  auto broken = nodes[0].spawn_on<without_a_model>("b");
  EXPECT_THROW(request(broken, total{}).get(), actor_down);
  shut_down(nodes);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("no file model.pt"));
}

class adder_actor : public adder::base {
public:
  adder_actor(caf::actor_config& config, const counter& target, at::Tensor amounts,
              std::string label)
      : adder::base(config),
        target_(target),
        amounts_(std::move(amounts)),
        label_(std::move(label)) {}

  adder::behavior_type make_behavior() override { return add_for(this, target_, amounts_, label_); }

private:
  counter target_;
  at::Tensor amounts_;
  std::string label_;
};

counter::behavior_type without_self() {
  return {
      [](const add& x) { return x.amount; },          //
      [](const total&) { return 0; },                 //
      [](const where&) { return std::string("?"); },  //
      [](const note&) {},                             //
      [](const leave&) {},
  };
}

counter::behavior_type fail_to_start(counter::pointer, const std::string& why) {
  throw std::domain_error(why);
}

int spawned_by_call(const std::string& there, int start) {
  auto made = this_node().spawn_on<count_from>(there, start);
  return request(made, add{1}).get();
}

TEST_P(spawning, by_function_makes_an_actor_on_the_node_named) {
  auto nodes = start({"a", "b", "c"});
  for (auto& to : nodes) {
    auto made = nodes[0].spawn_on<count_from>(to.name(), 10);
    EXPECT_EQ(request(made, where{}).get(), to.name());
    EXPECT_EQ(request(made, add{5}).get(), 15);
    EXPECT_EQ(request(made, total{}).get(), 15);
  }
  auto here = nodes[1].spawn(count_from, 3);
  EXPECT_EQ(request(here, where{}).get(), "b");
  EXPECT_EQ(request(here, total{}).get(), 3);
}

TEST_P(spawning, by_class_makes_an_actor_on_the_node_named) {
  auto nodes = start({"a", "b"});
  for (auto& to : nodes) {
    auto made = nodes[0].spawn_on<counter_actor>(to.rank(), 20);
    EXPECT_EQ(request(made, where{}).get(), to.name());
    EXPECT_EQ(request(made, add{5}).get(), 25);
  }
  auto here = nodes[1].spawn<counter_actor>(7);
  EXPECT_EQ(request(here, add{1}).get(), 8);
}

TEST_P(spawning, by_a_function_that_does_not_ask_for_itself) {
  auto nodes = start({"a", "b"});
  EXPECT_EQ(request(nodes[0].spawn_on<without_self>("b"), add{4}).get(), 4);
  EXPECT_EQ(request(nodes[0].spawn(without_self), add{4}).get(), 4);
}

TEST_P(spawning, takes_handles_tensors_and_strings) {
  auto nodes = start({"a", "b", "c"});
  auto sum = nodes[2].spawn(count_from, 0);
  auto amounts = at::arange(50'000) % 2;
  auto f = nodes[2].spawn_on<add_for>("b", sum, amounts, "label");
  EXPECT_EQ(request(f, total{}).get(), 25'000);
  auto c = nodes[2].spawn_on<adder_actor>("a", sum, amounts, std::string("label"));
  EXPECT_EQ(request(c, total{}).get(), 50'000);
  EXPECT_EQ(request(sum, total{}).get(), 50'000);
}

TEST_P(spawning, converts_arguments_to_what_the_function_takes) {
  auto nodes = start({"a", "b"});
  const short start_value = 12;
  EXPECT_EQ(request(nodes[0].spawn_on<count_from>("b", start_value), total{}).get(), 12);
}

TEST_P(spawning, many_makes_as_many) {
  auto nodes = start({"a", "b"});
  std::vector<counter> counters;
  for (int i = 0; i < 200; ++i) counters.push_back(nodes[0].spawn_on<counter_actor>("b", i));
  EXPECT_GE(living_counters, 200);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(request(counters[i], total{}).get(), i);
}

TEST_P(spawning, may_be_done_by_a_call_elsewhere) {
  auto nodes = start({"a", "b", "c"});
  EXPECT_EQ(nodes[0].rpc_sync<&spawned_by_call>("b", "c", 4), 5);
}

TEST_P(spawning, throws_what_the_constructor_threw) {
  auto nodes = start({"a", "b"});
  for (int to : {0, 1}) {
    auto why = fault_of<remote_error>([&] { nodes[0].spawn_on<counter_actor>(to, -1); });
    EXPECT_EQ(why.type, "std::domain_error");
    EXPECT_EQ(why.text, "a counter starts at 0 or more");
    EXPECT_EQ(why.node, nodes[to].name());
  }
  EXPECT_THROW(nodes[0].spawn<counter_actor>(-1), std::domain_error);
  EXPECT_EQ(request(nodes[0].spawn_on<counter_actor>("b", 1), total{}).get(), 1);
}

// The function runs as the actor's first act, when its maker has the handle already.
TEST_P(spawning, by_a_function_that_throws_makes_an_actor_that_has_ended) {
  auto nodes = start({"a", "b"});
  for (int to : {0, 1}) {
    try {
      auto made = nodes[0].spawn_on<fail_to_start>(to, std::string("no reason"));
      request(made, total{}).get_for(time_limit);
      ADD_FAILURE() << "it has answered";
    } catch (const rpc_timeout&) {
      ADD_FAILURE() << "no answer at all";
    } catch (const error& e) {
      EXPECT_FALSE(e.fault().text.empty());
    }
  }
}

TEST_P(spawning, refuses_a_node_that_there_is_not) {
  auto nodes = start({"a", "b"});
  auto why = fault_of<unknown_worker>([&] { nodes[0].spawn_on<count_from>("zebra", 1); });
  EXPECT_THAT(why.text, testing::HasSubstr("zebra"));
  EXPECT_THROW(nodes[0].spawn_on<counter_actor>(2, 1), unknown_worker);
}

TEST_P(spawning, after_the_shutdown_is_refused) {
  auto nodes = start({"a", "b"});
  nodes[0].shutdown(false);
  EXPECT_THROW(nodes[0].spawn_on<count_from>("b", 1), not_initialized);
  EXPECT_THROW(nodes[0].spawn_on<counter_actor>("a", 1), not_initialized);
  EXPECT_THROW(nodes[0].spawn(count_from, 1), not_initialized);
  EXPECT_THROW(nodes[0].spawn<counter_actor>(1), not_initialized);
  EXPECT_THROW(nodes[1].spawn_on<count_from>("a", 1), peer_lost);
}

// ---- Calling actors like modules

struct scale {
  at::Tensor x;
  double by = 1;
};
struct describe {
  std::string how;
};
TROUPE_MESSAGE(scale, x, by)
TROUPE_MESSAGE(describe, how)
using scaler = actor<answers<scale, at::Tensor>>;
using talking_scaler = actor<answers<scale, at::Tensor>, answers<describe, std::string>>;
using scaler_stub = actor_stub<scaler>;

template <class Stub, class... Args>
concept forwards = requires(const Stub& stub, const Args&... xs) {
  stub.forward(xs...);
  stub.forward_async(xs...);
};
template <class Stub, class Message, class... Args>
concept calls = requires(const Stub& stub, const Args&... xs) {
  stub.template call<Message>(xs...);
  stub.template call_async<Message>(xs...);
};

static_assert(forwards<scaler_stub, at::Tensor, double>);
static_assert(forwards<scaler_stub, at::Tensor, int>);  // converted, as in a call
static_assert(forwards<scaler_stub, at::Tensor, double, timeout, priority>);
static_assert(forwards<scaler_stub, scale>);
static_assert(forwards<actor_stub<talking_scaler>, at::Tensor, double>);
static_assert(forwards<actor_stub<talking_scaler>, std::string>);
static_assert(
    std::is_same_v<decltype(scaler_stub().forward_async(at::Tensor(), 1.0)), future<at::Tensor>>);
// What does not fit the interface does not compile.
static_assert(!forwards<scaler_stub>);
static_assert(!forwards<scaler_stub, at::Tensor>);
static_assert(!forwards<scaler_stub, double, at::Tensor>);
static_assert(!forwards<scaler_stub, at::Tensor, double, double>);
static_assert(!forwards<scaler_stub, std::string>);
static_assert(!forwards<actor_stub<counter>, int>);  // an `add` or a `note`
static_assert(calls<actor_stub<counter>, add, int>);
static_assert(!calls<actor_stub<counter>, add, std::string>);
static_assert(!calls<actor_stub<counter>, scale, at::Tensor, double>);
// A stub of an interface stands for actors that have all of it.
static_assert(std::is_convertible_v<scaler, scaler_stub>);
static_assert(std::is_convertible_v<talking_scaler, scaler_stub>);
static_assert(!std::is_constructible_v<scaler_stub, counter>);
static_assert(!std::is_constructible_v<actor_stub<talking_scaler>, scaler>);
static_assert(!std::is_constructible_v<scaler_stub, caf::actor>);

talking_scaler::behavior_type scale_and_talk(at::Tensor weight) {
  return {[=](const scale& message) {
            if (message.by == 0) throw std::domain_error("nothing to scale by");
            return message.x * weight * message.by;
          },
          [](const describe& message) { return message.how + " scaler"; }};
}

double scaled_elsewhere(scaler_stub stub, at::Tensor x) {
  return stub.forward(x, 2).sum().item<double>();
}

TEST_P(spawning, gives_actors_that_are_called_like_modules) {
  auto nodes = start({"a", "b", "c"});
  for (const auto* where : {"a", "b"}) {
    const actor_stub all = nodes[0].spawn_on<&scale_and_talk>(where, at::full({2}, 3.0));
    const scaler_stub stub = all.handle();
    EXPECT_TRUE(stub.forward(at::ones({2}), 2).equal(at::full({2}, 6.0)));
    EXPECT_TRUE(stub.forward(scale{at::ones({2}), 3}).equal(at::full({2}, 9.0)));
    EXPECT_EQ(stub.forward_async(at::ones({2}), 2.0, timeout(time_limit)).get().numel(), 2);
    EXPECT_EQ(all.forward("a", priority::high), "a scaler");
    EXPECT_EQ(all.call<describe>(std::string("one")), "one scaler");
    EXPECT_EQ(nodes[0].rpc_sync<&scaled_elsewhere>("c", stub, at::ones({2})), 12);
    EXPECT_EQ(fault_of<remote_error>([&] { stub.forward(at::ones({2}), 0); }).type,
              "std::domain_error");
  }
  const actor_stub counting = nodes[0].spawn_on<count_from>("b", 10);
  EXPECT_EQ(counting.forward(add{1}), 11);
  EXPECT_EQ(counting.call<add>(4), 15);
  EXPECT_EQ(counting.call_async<where>().get(), "b");
  EXPECT_FALSE(scaler_stub());
  EXPECT_THROW(scaler_stub().forward(at::ones({2}), 1), invalid_argument);
}

}  // namespace
}  // namespace troupe::test
