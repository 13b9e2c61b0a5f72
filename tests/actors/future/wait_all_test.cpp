// Scopes that wait for all calls that a thread begins in them.
#include <ATen/ops/ones.h>

#include <troupe/actor_stub.hpp>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"

namespace troupe::test {

struct spoil {};
TROUPE_MESSAGE(spoil)

// Sends a call from its destructor, on the thread that `here` names.
struct last_call {
  int to = 0;
  last_call() = default;
  explicit last_call(int x) : to(x) {}
  last_call(const last_call&) = default;
  last_call& operator=(const last_call&) = default;
  ~last_call();

  static inline std::atomic<const node*> from{nullptr};
  static inline std::thread::id here{};
};
TROUPE_MESSAGE(last_call, to)

namespace {

class waiting_for_all : public on_networks {};
TROUPE_ON_NETWORKS(waiting_for_all);

std::atomic<int> done{0};

void take_a_while(int) {
  std::this_thread::sleep_for(2ms);
  ++done;
}
void fail_after(int milliseconds, const std::string& text) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  ++done;
  throw std::out_of_range(text);
}
void receive_last_call(int) { ++done; }
last_call last_call_to(int x) { return last_call(x); }

int pass_the_door(int x) {
  shared_door::current()->pass();
  return x;
}
int plus_one(int x) { return x + 1; }

using spoiler = actor<answers<spoil, int>>;
spoiler::behavior_type spoil_all() {
  return {[](const spoil&) -> int { throw std::domain_error("spoilt"); }};
}

class number {
public:
  explicit number(int x) : x_(x) {}
  int fail() { throw std::domain_error(std::to_string(x_)); }

private:
  int x_;
};

int wait_in_handler(const std::string& there) {
  const int before = done;
  wait_all([&] {
    for (int i = 0; i < 5; ++i) this_node().rpc_async<&take_a_while>(there, i);
  });
  return done - before;
}

TEST_P(waiting_for_all, waits_for_calls_of_the_thread) {
  auto nodes = start({"a", "b", "c"});
  done = 0;
  const int out = wait_all([&] {
    for (int i = 0; i < 20; ++i) nodes[0].rpc_async<&take_a_while>(i % 3, i);
    return 7;
  });
  EXPECT_EQ(out, 7);
  EXPECT_EQ(done, 20);
  EXPECT_EQ(nodes[0].debug_info().calls_in_flight, 0u);
  done = 0;
  EXPECT_EQ(nodes[0].rpc_sync<&wait_in_handler>("b", std::string("c")), 5);
  EXPECT_EQ(nodes[0].rpc_sync<&wait_in_handler>("b", std::string("b")), 5);
  int x = 3;
  int& same = wait_all([&]() -> int& { return x; });
  EXPECT_EQ(&same, &x);
  shut_down(nodes);
}

TEST_P(waiting_for_all, throws_the_first_error_once_all_are_answered) {
  auto nodes = start({"a", "b"});
  done = 0;
  const auto why = fault_of<remote_error>([&] {
    wait_all([&] {
      nodes[0].rpc_async<&take_a_while>("b", 0);
      nodes[0].rpc_async<&fail_after>("b", 20, std::string("first"));
      nodes[0].rpc_async<&fail_after>("b", 0, std::string("second"));
      for (int i = 0; i < 10; ++i) nodes[0].rpc_async<&take_a_while>("b", i);
    });
  });
  EXPECT_EQ(why.text, "first");
  EXPECT_EQ(done, 13);
  // Nothing of it is left.
  wait_all([] {});
  shut_down(nodes);
}

TEST_P(waiting_for_all, throws_what_the_body_threw_once_all_are_answered) {
  auto nodes = start({"a", "b"});
  done = 0;
  EXPECT_THROW(wait_all([&] {
                 nodes[0].rpc_async<&fail_after>("b", 5, std::string("of a call"));
                 for (int i = 0; i < 5; ++i) nodes[0].rpc_async<&take_a_while>("b", i);
                 throw std::domain_error("of the body");
               }),
               std::domain_error);
  EXPECT_EQ(done, 6);
  // Calls outside of it belong to no wait_all.
  const auto failed = nodes[0].rpc_async<&fail_after>("b", 0, std::string("outside"));
  wait_all([] {});
  EXPECT_THROW(failed.get(), remote_error);
  shut_down(nodes);
}

TEST_P(waiting_for_all, may_be_nested) {
  auto nodes = start({"a", "b"});
  const shared_door door;
  future<int> stuck;
  bool inner_returned = false;
  wait_all([&] {
    stuck = nodes[0].rpc_async<&pass_the_door>("b", 4);
    const auto why = fault_of<remote_error>(
        [&] { wait_all([&] { nodes[0].rpc_async<&fail_after>("b", 1, std::string("inner")); }); });
    EXPECT_EQ(why.text, "inner");
    inner_returned = !stuck.ready();
    door->open();
  });
  EXPECT_TRUE(inner_returned);
  EXPECT_TRUE(stuck.ready());
  shut_down(nodes);
}

TEST_P(waiting_for_all, leaves_other_threads_and_answered_calls_alone) {
  auto nodes = start({"a", "b"});
  const shared_door door;
  future<int> of_other;
  wait_all([&] {
    std::thread([&] { of_other = nodes[0].rpc_async<&pass_the_door>("b", 4); }).join();
    // Its error has been thrown already.
    EXPECT_THROW((nodes[0].rpc_sync<&fail_after>("b", 0, std::string("seen"))), remote_error);
  });
  EXPECT_FALSE(of_other.ready());
  door->open();
  EXPECT_EQ(of_other.get_for(time_limit), 4);
  shut_down(nodes);
}

TEST_P(waiting_for_all, leaves_errors_alone_that_stubs_have_thrown) {
  auto nodes = start({"a", "b"});
  const auto spoils = [&] { return actor_stub(nodes[0].spawn_on<&spoil_all>("b")); };
  wait_all([&] {
    EXPECT_THROW(spoils().forward(), remote_error);
    EXPECT_THROW(spoils().call<spoil>(), remote_error);
  });
  EXPECT_EQ(
      fault_of<remote_error>([&] { wait_all([&] { spoils().forward_async(spoil{}); }); }).text,
      "spoilt");
  shut_down(nodes);
}

TEST_P(waiting_for_all, keeps_no_answers_but_errors) {
  auto nodes = start({"a", "b"});
  std::weak_ptr<void> first;
  const auto why = fault_of<remote_error>([&] {
    wait_all([&] {
      nodes[0].rpc_async<&fail_after>("b", 0, std::string("long ago"));
      first = nodes[0].rpc_async<&plus_one>("b", 1).shared();
      for (int i = 0; i < 200; ++i) EXPECT_EQ(nodes[0].rpc_async<&plus_one>("b", i).get(), i + 1);
      EXPECT_TRUE(eventually([&] {
        nodes[0].rpc_async<&plus_one>("b", 0).get();
        return first.expired();
      }));
    });
  });
  EXPECT_EQ(why.text, "long ago");
  shut_down(nodes);
}

// A value that makes a call as it ends, while answers are let go of.
TEST_P(waiting_for_all, may_learn_of_calls_from_values_that_end) {
  auto nodes = start({"a", "b"});
  done = 0;
  wait_all([&] {
    for (int i = 0; i < 300; ++i) nodes[0].rpc_async<&last_call_to>("b", i).wait();
    last_call::here = std::this_thread::get_id();
    last_call::from = &nodes[0];
    for (int i = 0; i < 300; ++i) nodes[0].rpc_async<&last_call_to>("b", i).wait();
    last_call::from = nullptr;
  });
  EXPECT_GT(done, 0);
  shut_down(nodes);
}

TEST_P(waiting_for_all, knows_requests_rrefs_operators_and_futures_as_arguments) {
  auto nodes = start({"a", "b"});
  const auto& a = nodes[0];
  const auto actor = a.spawn_on<&spoil_all>("b");
  EXPECT_EQ(fault_of<remote_error>([&] { wait_all([&] { request(actor, spoil{}); }); }).text,
            "spoilt");
  const auto five = a.remote<number>("b", 5);
  EXPECT_EQ(
      fault_of<remote_error>([&] { wait_all([&] { five.rpc_async<&number::fail>(); }); }).text,
      "5");
  EXPECT_THROW(wait_all([&] {
                 a.rpc_async("b", "aten::mm", at::ones({2, 3}), at::ones({2, 3}));
               }),
               remote_error);
  const shared_door door;
  future<int> later;
  std::thread opens;
  wait_all([&] {
    later = a.rpc_async<&plus_one>("b", a.rpc_async<&pass_the_door>("b", 1));
    opens = std::thread([&] {
      door->wait_for(1);
      door->open();
    });
  });
  opens.join();
  EXPECT_TRUE(later.ready());
  EXPECT_EQ(later.get(), 2);
  shut_down(nodes);
}

}  // namespace

last_call::~last_call() {
  const auto* const node = from.load();
  if (node && std::this_thread::get_id() == here) node->rpc_async<&receive_last_call>("b", to);
}

}  // namespace troupe::test
