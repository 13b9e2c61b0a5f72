// Who waits while a node ends: threads of the program wait on, handlers are let go, continuations
// run.
#include <caf/send.hpp>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"

namespace troupe::test {
namespace {

class waits_at_the_end : public on_networks {};
TROUPE_ON_NETWORKS(waits_at_the_end);

using forgetful = actor<answers<total, int>>;
using kept_promises = std::shared_ptr<std::vector<caf::typed_response_promise<int>>>;

// Answers when the test asks for it, or never.
forgetful::behavior_type keep_promises(forgetful::pointer self, kept_promises kept) {
  return {[=](const total&) {
    kept->push_back(self->make_response_promise<int>());
    return kept->back();
  }};
}

int one() { return 1; }

TEST_P(waits_at_the_end, of_the_program_go_on) {
  auto nodes = start({"a", "b"});
  auto kept = std::make_shared<kept_promises::element_type>();
  auto answer = request(nodes[0].spawn(keep_promises, kept), total{});
  std::atomic<int> released{0};
  std::vector<std::future<void>> waiting;
  for (int i = 0; i < 4; ++i)
    waiting.push_back(std::async(std::launch::async, [&] {
      EXPECT_THROW(answer.get(), remote_error);
      ++released;
    }));
  // Some lead the network, and sleep in it.
  for (int i = 0; i < 10; ++i) EXPECT_EQ(nodes[1].rpc_sync<&one>("a"), 1);
  nodes[0].shutdown(false);
  nodes.clear();
  EXPECT_FALSE(answer.wait_for(20ms));
  EXPECT_EQ(released, 0);
  kept->clear();  // the answer is an error now
  for (auto& w : waiting) ASSERT_EQ(w.wait_for(time_limit), std::future_status::ready);
  EXPECT_EQ(released, 4);
}

struct outcomes {
  std::mutex mutex;
  std::vector<std::string> all;
  std::atomic<int> waits{0};

  template <class F>
  void note(F&& wait) {
    ++waits;
    std::string what = "nothing was thrown";
    try {
      wait();
    } catch (const not_initialized&) {
      what = "not_initialized";
    } catch (const std::exception& e) {
      what = e.what();
    }
    std::lock_guard lock(mutex);
    all.push_back(what);
  }
  std::vector<std::string> now() {
    std::lock_guard lock(mutex);
    return all;
  }
};

std::shared_ptr<outcomes> seen;
std::shared_ptr<kept_promises::element_type> kept_by_nobody;

// Waits for a promise that nobody keeps.
void wait_for_nothing() {
  promise<int> never;
  seen->note([&] { never.get_future().get(); });
  seen->note([&] { never.get_future().get_for(time_limit); });
}

// The same for an actor of this node.
void wait_for_an_actor() {
  seen->note([] { request(this_node().spawn(keep_promises, kept_by_nobody), total{}).get(); });
}

void pass_and_wait() {
  shared_door::current()->pass();
  wait_for_nothing();
}

TEST_P(waits_at_the_end, of_handlers_are_released) {
  seen = std::make_shared<outcomes>();
  kept_by_nobody = std::make_shared<kept_promises::element_type>();
  auto nodes = start({"a", "b"});
  const shared_door door;
  std::vector<future<void>> calls;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(nodes[0].rpc_async<&wait_for_nothing>("b"));
    calls.push_back(nodes[0].rpc_async<&wait_for_an_actor>("b"));
  }
  auto late = nodes[0].rpc_async<&pass_and_wait>("b");
  ASSERT_TRUE(door->wait_for(1));
  auto done = nodes[1].rpc_async<&one>("b").then([](int) { wait_for_nothing(); });
  ASSERT_TRUE(eventually([] { return seen->waits == 3 + 3 + 1; }));
  auto ending = std::async(std::launch::async, [&] { nodes[1].shutdown(false); });
  EXPECT_TRUE(eventually([] { return seen->now().size() == 3 * 3 + 2; }));
  door->open();  // this handler begins to wait only now
  ASSERT_EQ(ending.wait_for(time_limit), std::future_status::ready);
  EXPECT_EQ(seen->now(), std::vector<std::string>(3 * 3 + 2 * 2, "not_initialized"));
  EXPECT_TRUE(done.wait_for(time_limit));
  EXPECT_TRUE(late.wait_for(time_limit));
  for (auto& call : calls) EXPECT_TRUE(call.wait_for(time_limit));
  kept_by_nobody.reset();
}

// A node that lives on has what a handler of one that ends waits for.
std::shared_ptr<node> living;
void wait_for_another_node() {
  seen->note([] { living->rpc_async<&pass_and_wait>(living->rank()).get(); });
}

TEST_P(waits_at_the_end, of_handlers_for_other_nodes_are_released) {
  seen = std::make_shared<outcomes>();
  auto nodes = start({"a", "b"});
  const shared_door door;
  living = std::make_shared<node>(nodes[0]);
  auto call = nodes[0].rpc_async<&wait_for_another_node>("b");
  ASSERT_TRUE(door->wait_for(1));
  nodes[1].shutdown(false);
  EXPECT_EQ(seen->now(), std::vector<std::string>{"not_initialized"});
  door->open();
  nodes[0].shutdown(false);
  living.reset();
}

TEST_P(waits_at_the_end, leave_no_continuation_behind) {
  auto nodes = start({"a", "b"});
  auto ready = nodes[0].rpc_async<&one>("b");
  ready.wait();
  std::vector<future<int>> all;
  std::atomic<int> ran{0};
  for (int i = 0; i < 500; ++i)
    all.push_back(ready.then([&](int x) {
      std::this_thread::sleep_for(1ms);
      ++ran;
      return x;
    }));
  nodes[0].shutdown(false);
  for (auto& f : all) ASSERT_TRUE(f.wait_for(time_limit));
  EXPECT_EQ(ran, 500);
}

}  // namespace
}  // namespace troupe::test
