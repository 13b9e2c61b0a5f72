// Futures: waiting, going on, gathering, and outliving the node that made them.
#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"

namespace troupe::test {
namespace {

class futures : public on_networks {};
TROUPE_ON_NETWORKS(futures);

int sum(int a, int b) { return a + b; }
void nothing_much() {}
void fail(const std::string& text) { throw std::out_of_range(text); }
int fail_for(int x) { throw std::domain_error(std::to_string(x) + " is too much"); }
int pass_the_door(int x) {
  shared_door::current()->pass();
  return x;
}

TEST_P(futures, can_be_asked_again_and_by_many) {
  auto nodes = start({"a", "b"});
  const shared_door door;
  auto f = nodes[0].rpc_async<&pass_the_door>("b", 4);
  std::atomic<int> right{0};
  std::vector<future<int>> copies(8, f);
  auto waiting = std::async(std::launch::async, [&] {
    all_at_once(copies, [&](const future<int>& copy) { right += copy.get() == 4; });
  });
  ASSERT_TRUE(door->wait_for(1));
  EXPECT_FALSE(f.ready());
  door->open();
  waiting.get();
  EXPECT_EQ(right, 8);
  EXPECT_TRUE(f.ready());
  EXPECT_EQ(f.get(), 4);
}

// Without a node each link of the chain runs where the one before it ended.
TEST(chains, may_be_longer_than_the_stack) {
  constexpr int links = 300'000;
  promise<int> start;
  auto end = start.get_future();
  for (int i = 0; i < links; ++i) end = end.then([](int x) { return x + 1; });
  start.set_value(0);
  EXPECT_EQ(end.get(), links);
}

TEST(chains, may_be_longer_than_the_stack_when_they_are_dropped) {
  future<int> end;
  {
    promise<int> start;
    end = start.get_future();
    for (int i = 0; i < 300'000; ++i) end = end.then([](int x) { return x + 1; });
  }
  EXPECT_THROW(end.get(), remote_error);
}

// They run on the thread that completes the promise, one after the other: also below one that
// waits.
TEST(continuations, without_a_node_may_wait_for_one_another) {
  promise<int> outer;
  const auto end = outer.get_future().then([](int x) {
    promise<int> inner;
    const auto sum = inner.get_future().then([](int y) { return y + 1; });
    const auto both = when_all(std::vector{sum, inner.get_future()});
    inner.set_value(x);
    return sum.get_for(time_limit) + both.get_for(time_limit)[0];
  });
  const std::jthread completes([&] { outer.set_value(1); });
  EXPECT_EQ(end.get_for(time_limit), 4);
}

// The second one waits for the first one, which waits for another thread.
TEST(continuations, without_a_node_that_wait_hold_up_no_other) {
  promise<int> outer, elsewhere;
  future<int> first, second;
  const auto end = outer.get_future().then([&](int x) {
    promise<int> inner;
    first = inner.get_future().then([&](int y) { return y + elsewhere.get_future().get(); });
    second = inner.get_future().then([&](int y) { return y + first.get(); });
    inner.set_value(x);
  });
  const std::jthread completes([&] { outer.set_value(1); });
  end.get_for(time_limit);
  const std::jthread later([&] {
    std::this_thread::sleep_for(20ms);
    elsewhere.set_value(1);
  });
  EXPECT_EQ(second.get_for(time_limit), 3);
}

TEST(continuations, run_where_the_future_becomes_ready_if_that_is_asked_for) {
  for (const bool before : {true, false}) {
    promise<int> made;
    std::thread::id ran_on;
    const auto attach = [&] {
      made.get_future().state().when_ready_at_once(
          troupe::detail::make_continuation([&] { ran_on = std::this_thread::get_id(); }));
    };
    if (before) attach();
    std::thread::id completed_on;
    std::thread([&] {
      completed_on = std::this_thread::get_id();
      made.set_value(1);
    }).join();
    if (!before) attach();
    EXPECT_EQ(ran_on, before ? completed_on : std::this_thread::get_id());
  }
}

TEST_P(futures, of_a_failure_throw_it_each_time) {
  auto nodes = start({"a", "b"});
  auto f = nodes[0].rpc_async<&fail>("b", "x");
  for (int i = 0; i < 3; ++i) EXPECT_THROW(f.get(), remote_error);
  EXPECT_TRUE(f.wait_for(0s));
}

TEST_P(futures, go_on_with_then) {
  auto nodes = start({"a", "b"});
  auto& a = nodes[0];
  EXPECT_EQ(a.rpc_async<&sum>("b", 1, 2).then([](int x) { return std::to_string(x); }).get(), "3");
  EXPECT_EQ(a.rpc_async<&nothing_much>("b").then([] { return 8; }).get(), 8);
  int seen = 0;
  a.rpc_async<&sum>("b", 1, 2).then([&](int x) { seen = x; }).get();
  EXPECT_EQ(seen, 3);
  // Of one that is there already, and of one that never will be a value.
  auto done = a.rpc_async<&sum>("b", 1, 2);
  done.wait();
  EXPECT_EQ(done.then([](int x) { return -x; }).get(), -3);
  bool called = false;
  auto failed = a.rpc_async<&fail>("b", "first").then([&] { called = true; });
  EXPECT_EQ(fault_of<remote_error>([&] { failed.get(); }).text, "first");
  EXPECT_FALSE(called);
  auto thrown = done.then([](int) -> int { throw std::domain_error("second"); });
  EXPECT_THROW(thrown.get(), std::domain_error);
}

TEST_P(futures, go_on_with_their_error_where_that_is_asked_for) {
  auto nodes = start({"a", "b"});
  auto& a = nodes[0];
  const auto text_of = [](const future<int>& done) -> std::string {
    EXPECT_TRUE(done.ready());
    try {
      return std::to_string(done.get());
    } catch (const remote_error& e) {
      return e.fault().type + ": " + e.fault().text;
    }
  };
  const auto one = a.rpc_async<&sum>("b", 1, 2), none = a.rpc_async<&fail_for>("b", 3);
  EXPECT_EQ(one.then(text_of).get_for(time_limit), "3");
  EXPECT_EQ(none.then(text_of).get_for(time_limit), "std::domain_error: 3 is too much");
  // Of one that is ready, and of a future without a value.
  EXPECT_EQ(none.then(text_of).get_for(time_limit), "std::domain_error: 3 is too much");
  const auto failed = [](future<void> done) {
    try {
      done.get();
    } catch (const remote_error&) {
      return true;
    }
    return false;
  };
  EXPECT_TRUE(a.rpc_async<&fail>("b", "x").then(failed).get_for(time_limit));
  EXPECT_FALSE(a.rpc_async<&nothing_much>("b").then(failed).get_for(time_limit));
  // What it throws is the error of the result, the parent's too.
  const auto again = none.then([](const future<int>& done) { return done.get() + 1; });
  EXPECT_EQ(fault_of<remote_error>([&] { again.get_for(time_limit); }).text, "3 is too much");
  const auto other = none.then([](const future<int>&) -> int { throw std::domain_error("own"); });
  EXPECT_THROW(other.get_for(time_limit), std::domain_error);
}

TEST_P(futures, go_on_with_their_error_on_a_thread_of_the_node) {
  auto nodes = start({"a", "b"});
  const auto node_here = [](const future<int>& done) {
    return this_node().name() + (done.ready() ? "" : " early");
  };
  EXPECT_EQ(nodes[0].rpc_async<&fail_for>("b", 3).then(node_here).get_for(time_limit), "a");
  EXPECT_EQ(nodes[0].rpc_async<&sum>("b", 1, 2).then(node_here).get_for(time_limit), "a");
}

TEST_P(futures, go_on_where_calls_are_allowed) {
  auto nodes = start({"a", "b"});
  auto chained = nodes[0].rpc_async<&sum>("b", 1, 2).then([](int x) {
    return this_node().name() + std::to_string(this_node().rpc_sync<&sum>("b", x, 10));
  });
  EXPECT_EQ(chained.get_for(time_limit), "a13");
}

TEST_P(futures, are_gathered_in_order) {
  auto nodes = start({"a", "b"});
  std::vector<future<int>> many;
  std::vector<int> expected;
  for (int i = 0; i < 100; ++i) {
    many.push_back(nodes[i % 2].rpc_async<&sum>((i / 2) % 2, i, 0));
    expected.push_back(i);
  }
  EXPECT_EQ(when_all(many).get(), expected);
  std::vector<future<void>> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(nodes[0].rpc_async<&nothing_much>("b"));
  when_all(silent).get();
  for (auto& f : silent) EXPECT_TRUE(f.ready());
  EXPECT_TRUE(when_all(std::vector<future<int>>()).get().empty());
}

TEST_P(futures, are_gathered_until_the_first_failure) {
  auto nodes = start({"a", "b"});
  const shared_door door;
  auto stuck = nodes[0].rpc_async<&pass_the_door>("b", 0).then([](int) {});
  std::vector<future<void>> all{stuck, nodes[0].rpc_async<&fail>("b", "early")};
  auto gathered = when_all(all);
  EXPECT_EQ(fault_of<remote_error>([&] { gathered.get_for(time_limit); }).text, "early");
  EXPECT_FALSE(stuck.ready());
}

struct not_copied_twice {
  not_copied_twice() = default;
  not_copied_twice(not_copied_twice&&) = default;
  not_copied_twice(const not_copied_twice&) { throw std::domain_error("a copy too many"); }
};

TEST_P(futures, of_values_that_cannot_be_copied_fail_when_gathered) {
  auto nodes = start({"a", "b"});
  std::vector<future<not_copied_twice>> all;
  for (int i = 0; i < 3; ++i)
    all.push_back(nodes[0].rpc_async<&sum>("b", i, 1).then([](int) { return not_copied_twice(); }));
  EXPECT_THROW(when_all(all).get(), std::domain_error);
  EXPECT_THROW(when_all(all).get(), std::domain_error);
}

TEST_P(futures, of_answers_of_many_actors_are_gathered) {
  auto nodes = start({"a", "b", "c"});
  std::vector<counter> counters;
  for (int i = 0; i < 9; ++i) counters.push_back(nodes[0].spawn_on<count_from>(i % 3, 100 * i));
  EXPECT_EQ(when_all(counters, add{1}).get(),
            (std::vector<int>{1, 101, 201, 301, 401, 501, 601, 701, 801}));
}

TEST_P(futures, outlive_their_node) {
  future<int> done, pending;
  const shared_door door;
  {
    auto nodes = start({"a", "b"});
    done = nodes[0].rpc_async<&sum>("b", 1, 2);
    done.wait();
    pending = nodes[0].rpc_async<&pass_the_door>("b", 1);
    ASSERT_TRUE(door->wait_for(1));
    nodes[0].shutdown(false);
    EXPECT_THROW(pending.get(), not_initialized);
    door->open();
  }
  EXPECT_EQ(done.get(), 3);
  EXPECT_EQ(done.then([](int x) { return x + 1; }).get(), 4);
  EXPECT_EQ(when_all(std::vector<future<int>>{done, done}).get(), (std::vector<int>{3, 3}));
  EXPECT_THROW(pending.get(), not_initialized);
  EXPECT_THROW(pending.then([](int x) { return x; }).get(), not_initialized);
}

TEST(future, of_no_call_reports_it) {
  future<int> none;
  EXPECT_FALSE(none.valid());
  EXPECT_THROW(none.get(), invalid_argument);
  EXPECT_THROW(none.ready(), invalid_argument);
  EXPECT_THROW(none.then([](int) {}), invalid_argument);
}

TEST(promise, completes_its_future_once) {
  promise<int> p;
  auto f = p.get_future();
  EXPECT_FALSE(f.ready());
  auto waiting = std::async(std::launch::async, [&] { return f.get(); });
  p.set_value(5);
  EXPECT_EQ(waiting.get(), 5);
  EXPECT_THROW(p.set_value(6), invalid_argument);
  EXPECT_THROW(p.set_exception(std::make_exception_ptr(std::domain_error("x"))), invalid_argument);
  EXPECT_EQ(f.get(), 5);
}

TEST(promise, may_fail_its_future) {
  promise<void> p;
  auto f = p.get_future();
  p.set_exception(std::make_exception_ptr(std::domain_error("x")));
  EXPECT_THROW(f.get(), std::domain_error);
}

TEST(promise, that_is_dropped_fails_its_future) {
  future<int> f;
  {
    promise<int> p;
    f = p.get_future();
    promise<int> moved(std::move(p));
    EXPECT_FALSE(f.ready());
  }
  EXPECT_THAT(fault_of<remote_error>([&] { f.get(); }).text, testing::HasSubstr("dropped"));
}

TEST(promise, that_has_been_moved_from_reports_it) {
  promise<int> p;
  auto f = p.get_future();
  promise<int> other(std::move(p));
  EXPECT_FALSE(p.valid());
  EXPECT_THAT(fault_of<invalid_argument>([&] { p.set_value(1); }).text,
              testing::HasSubstr("has been moved from"));
  EXPECT_THROW(p.set_exception(std::make_exception_ptr(std::domain_error("x"))), invalid_argument);
  EXPECT_THROW(p.get_future(), invalid_argument);
  EXPECT_THROW(p.cancelled(), invalid_argument);
  EXPECT_TRUE(other.valid());
  other.set_value(3);
  EXPECT_EQ(f.get(), 3);
  // It may have another one, and what that is put over is dropped.
  p = promise<int>();
  f = p.get_future();
  p = promise<int>();
  EXPECT_THROW(f.get(), remote_error);
  f = p.get_future();
  auto& same = p;
  p = std::move(same);
  p.set_value(4);
  EXPECT_EQ(f.get(), 4);
}

TEST_P(futures, and_handles_that_have_been_moved_from_report_it) {
  auto nodes = start({"a", "b"});
  auto f = nodes[0].rpc_async<&sum>("b", 1, 2);
  const auto moved = std::move(f);
  EXPECT_FALSE(f.valid());
  EXPECT_THROW(f.get(), invalid_argument);
  EXPECT_THROW(std::move(f).get(), invalid_argument);
  EXPECT_THROW(f.wait(), invalid_argument);
  EXPECT_THROW(f.get_for(1ms), invalid_argument);
  EXPECT_THROW(f.cancel(), invalid_argument);
  EXPECT_THROW(f.then([](int) {}), invalid_argument);
  EXPECT_THROW(when_all(std::vector{moved, f}), invalid_argument);
  EXPECT_THROW(when_all(moved, f), invalid_argument);
  EXPECT_THROW(when_any(std::vector{moved, f}), invalid_argument);
  EXPECT_THROW(nodes[0].rpc_async<&sum>("b", f, 1), invalid_argument);
  EXPECT_EQ(moved.get(), 3);
  auto here = nodes[0].spawn_on<count_from>("b", 5);
  const auto there = std::move(here);
  EXPECT_THROW(request(here, add{1}), invalid_argument);
  EXPECT_THROW(send(here, note{1}), invalid_argument);
  EXPECT_EQ(request(there, add{1}).get(), 6);
  auto node = nodes[0];
  const auto same = std::move(node);
  EXPECT_THROW(node.rpc_sync<&sum>("b", 1, 2), not_initialized);
  EXPECT_EQ(same.rpc_sync<&sum>("b", 1, 2), 3);
}

TEST(promise, that_is_dropped_or_fails_is_reported_to_what_takes_the_future) {
  const auto text_of = [](const future<int>& done) -> std::string {
    try {
      return std::to_string(done.get());
    } catch (const std::exception& e) {
      return e.what();
    }
  };
  future<std::string> failed, dropped, kept;
  {
    promise<int> one, two, three;
    failed = one.get_future().then(text_of);
    dropped = two.get_future().then(text_of);
    kept = three.get_future().then(text_of);
    one.set_exception(std::make_exception_ptr(std::domain_error("x")));
    three.set_value(7);
  }
  EXPECT_EQ(failed.get(), "x");
  EXPECT_THAT(dropped.get(), testing::HasSubstr("dropped"));
  EXPECT_EQ(kept.get(), "7");
}

TEST(promise, goes_on_without_a_node) {
  promise<int> p;
  auto f = p.get_future().then([](int x) { return x * 2; });
  p.set_value(4);
  EXPECT_EQ(f.get(), 8);
}

}  // namespace
}  // namespace troupe::test
