// Remote references: what fails, what is lent, and what ends.

#include "tests/actors/rref/rref_testing.hpp"
#include "troupe/actors/node/node_core.hpp"

namespace troupe::test {
namespace {

class rref_ends : public on_networks {};
TROUPE_ON_NETWORKS(rref_ends);

// ---- Failures: rule 8

TEST_P(rref_ends, a_creation_that_fails_reports_why_wherever_the_reference_is_used) {
  auto nodes = start({"a", "b", "c"});
  {
    const auto r = nodes[0].remote<&refuse>("b", std::string("too far"));
    const auto why = fault_of<remote_error>([&] { r.to_here(); });
    EXPECT_EQ(why.type, "std::out_of_range");
    EXPECT_EQ(why.text, "too far");
    EXPECT_EQ(why.node, "b");
    EXPECT_TRUE(eventually([&] { return r.core()->ready(); }));
    EXPECT_EQ(fault_of<remote_error>([&] { r.to_here(); }).text, "too far");
    EXPECT_EQ(fault_of<remote_error>([&] { nodes[0].rpc_sync<&value_of>("c", r); }).text,
              "too far");
    EXPECT_EQ(fault_of<remote_error>([&] { nodes[0].remote<&plus>("c", r, 1).to_here(); }).text,
              "too far");
    EXPECT_FALSE(r.confirmed_by_owner());
    // Passed on before it is known to have failed.
    const auto early = nodes[0].remote<&refuse>("b", std::string("too far"));
    EXPECT_EQ(fault_of<remote_error>([&] { nodes[0].rpc_sync<&value_of>("c", early); }).text,
              "too far");
    const auto m = nodes[0].remote<model>("b", -1);
    EXPECT_EQ(fault_of<remote_error>([&] { m.rpc_sync<&model::forward>(1); }).text,
              "no negative weight");
    EXPECT_EQ(fault_of<remote_error>([&] { m.remote<&model::forward>(1).to_here(); }).text,
              "no negative weight");
    const auto self = nodes[0].remote<&refuse>("a", std::string("here"));
    EXPECT_EQ(fault_of<remote_error>([&] { self.to_here(); }).type, "std::out_of_range");
    // An argument that fails.
    const auto chain =
        nodes[0].remote<&plus>("c", nodes[0].remote<&refuse>("b", std::string("x")), 1);
    EXPECT_EQ(fault_of<remote_error>([&] { chain.to_here(); }).text, "x");
    const auto late =
        nodes[0].remote<&plus>("c", nodes[0].rpc_async<&refuse>("b", std::string("y")), 1);
    EXPECT_EQ(fault_of<remote_error>([&] { late.to_here(); }).text, "y");
    EXPECT_THROW(nodes[0].remote<&plus>("nobody", 1, 2), unknown_worker);
    EXPECT_THROW(rref<int>().to_here(), invalid_argument);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

int slow(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return ms;
}

// At the door of the test.
int made_late(int x) {
  shared_door::current()->pass();
  return x;
}

TEST_P(rref_ends, a_limit_that_passes_is_reported_and_a_slow_creation_can_still_be_fetched) {
  auto nodes = start({"a", "b", "c"});
  for (const char* where : {"b", "a"}) {
    const shared_door door;
    const auto r = nodes[0].remote<&made_late>(where, 200);
    EXPECT_EQ(fault_of<rpc_timeout>([&] { r.to_here(timeout(10ms)); }).limit, 10ms);
    ASSERT_TRUE(door->wait_for(1));
    door->open();
    EXPECT_EQ(r.to_here(), 200);
  }
  {
    // The limit of the creation itself.
    const shared_door door;
    const auto given_up = nodes[0].remote<&made_late>("b", 200, timeout(10ms));
    ASSERT_TRUE(door->wait_for(1));
    EXPECT_TRUE(eventually([&] {
      const auto message = fault_of<rpc_timeout>([&] { given_up.to_here(timeout(10ms)); }).text;
      return message.find("RRef creation via rpc.remote() timed out") != std::string::npos;
    }));
    door->open();
    EXPECT_THROW(nodes[0].rpc_sync<&value_of>("c", given_up), rpc_timeout);
    EXPECT_THROW(given_up.rpc_sync<&doubled>(), rpc_timeout);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

future<void> created_there(rref<int> r) { return r.created(); }

TEST_P(rref_ends, report_when_their_value_has_been_made) {
  auto nodes = start({"a", "b", "c"});
  const auto& a = nodes[0];
  for (const char* where : {"b", "a"}) {
    const shared_door door;
    const auto r = a.remote<&made_late>(where, 5);
    const auto made = r.created();
    const auto there = a.rpc_async<&created_there>("c", r);
    const auto at_owner = a.rpc_async<&created_there>(where, r);
    ASSERT_TRUE(door->wait_for(1));
    EXPECT_FALSE(made.ready());
    EXPECT_FALSE(there.ready());
    EXPECT_FALSE(at_owner.ready());
    EXPECT_EQ(r.status(), rref_status::pending);
    EXPECT_FALSE(r.confirmed_by_owner());
    door->open();
    made.get_for(time_limit);
    EXPECT_EQ(r.status(), rref_status::confirmed);
    EXPECT_TRUE(r.confirmed_by_owner());
    there.get_for(time_limit);
    at_owner.get_for(time_limit);
    r.created().get();
    EXPECT_EQ(r.to_here(), 5);
    EXPECT_EQ(r.remote<&doubled>().created().then([] { return 1; }).get(), 1);
  }
  {
    const auto failed = a.remote<&refuse>("b", std::string("too far"));
    EXPECT_EQ(fault_of<remote_error>([&] { failed.created().get(); }).text, "too far");
    EXPECT_EQ(failed.status(), rref_status::failed);
    EXPECT_FALSE(failed.confirmed_by_owner());
    EXPECT_EQ(fault_of<remote_error>([&] { failed.created().get(); }).text, "too far");
    const auto mine = a.make_rref(3);
    EXPECT_TRUE(mine.created().ready());
    EXPECT_EQ(mine.status(), rref_status::confirmed);
    a.remote<model>("b", 3).created().get();  // of what cannot be sent
    a.remote<&nothing>("b", 1).created().get();
    // To give up waiting ends nothing else.
    const shared_door door;
    const auto r = a.remote<&made_late>("b", 6);
    r.created().cancel();
    door->open();
    EXPECT_EQ(r.to_here(), 6);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rref_ends, that_are_waited_for_fail_as_soon_as_the_limit_of_their_creation_has_passed) {
  auto nodes = start({"a", "b"});
  for (const char* where : {"b", "a"}) {
    const shared_door door;  // closed: the value is not made meanwhile
    const auto r = nodes[0].remote<&made_late>(where, 5, timeout(100ms));
    const auto made = r.created();
    std::vector<future<int>> fetches;
    try {
      for (int i = 0; i < 40; ++i) fetches.push_back(r.to_here_async(timeout(time_limit)));
    } catch (const rpc_timeout&) {  // it has passed already
    }
    constexpr auto wanted = "RRef creation via rpc.remote() timed out";
    EXPECT_THAT(fault_of<rpc_timeout>([&] { made.get_for(time_limit); }).text,
                testing::HasSubstr(wanted));
    for (const auto& one : fetches)
      EXPECT_THAT(fault_of<rpc_timeout>([&] { one.get_for(time_limit); }).text,
                  testing::HasSubstr(wanted));
    EXPECT_EQ(r.status(), rref_status::failed);
    EXPECT_THROW(r.to_here(), rpc_timeout);
    if (r.is_owner()) {
      EXPECT_THROW(r.local_value(), rpc_timeout);
    }
    door->open();
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

future<int> never_there() {
  static promise<int> nobody_keeps_it;
  return nobody_keeps_it.get_future();
}

TEST_P(rref_ends, whose_creation_has_failed_are_asked_for_no_longer) {
  auto nodes = start({"a", "b"});
  {
    const auto r = nodes[0].remote<&never_there>("b", timeout(100ms));
    future<int> fetched, called;
    try {
      fetched = r.to_here_async(timeout(0s));
      called = r.rpc_async<&doubled>(timeout(0s));
    } catch (const rpc_timeout&) {  // it has passed already
    }
    EXPECT_THAT(fault_of<rpc_timeout>([&] { r.created().get_for(time_limit); }).text,
                testing::HasSubstr("RRef creation via rpc.remote() timed out"));
    if (fetched.valid()) {
      EXPECT_THROW(fetched.get(), rpc_timeout);
    }
    if (called.valid()) {
      EXPECT_THROW(called.get(), rpc_timeout);
    }
    EXPECT_TRUE(eventually([&] { return nodes[0].debug_info().calls_in_flight == 0; }));
  }
  shut_down(nodes);  // waits for no answer that nobody wants
}

TEST_P(rref_ends, that_were_never_asked_for_report_it) {
  auto nodes = start({"a", "b"});
  auto& here = nodes[0].core();
  future<void> made;
  {
    const rref<int> r(here.rrefs().expect(here.find("b"), troupe::detail::value_type::of<int>(),
                                          std::source_location::current()));
    made = r.created();
    EXPECT_FALSE(made.ready());
  }
  ASSERT_TRUE(made.wait_for(time_limit));
  EXPECT_THROW(made.get(), rref_gone);
  shut_down(nodes);
}

// ---- What others share, and what ends

std::unique_ptr<promise<at::Tensor>> round_promise;
future<at::Tensor> round_result;
future<at::Tensor> one_for_all() { return round_result; }
future<int> read_of(rref<int> r) { return r.to_here_async(); }

TEST_P(rref_ends, a_future_that_others_have_too_keeps_its_value) {
  auto nodes = start({"a", "b"});
  round_promise = std::make_unique<promise<at::Tensor>>();
  round_result = round_promise->get_future();
  {
    const auto first = nodes[0].remote<&one_for_all>("b");
    const auto second = nodes[0].remote<&one_for_all>("b");
    round_promise->set_value(at::ones({3}));
    EXPECT_EQ(first.to_here().numel(), 3);
    EXPECT_EQ(second.to_here().numel(), 3);
    EXPECT_EQ(nodes[0].rpc_sync<&one_for_all>("b").numel(), 3);
    const auto value = nodes[0].remote<&plus>("b", 1, 2);
    EXPECT_EQ(nodes[0].remote<&read_of>("b", value).to_here(), 3);
    EXPECT_EQ(value.to_here(), 3);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rref_ends, giving_up_a_read_leaves_the_value_alone) {
  auto nodes = start({"a", "b"});
  {
    const auto here = nodes[0].remote<&slow>("a", 100);
    here.to_here_async().cancel();
    EXPECT_EQ(here.to_here(), 100);
    const auto there = nodes[0].remote<&slow>("b", 100);
    there.to_here_async().cancel();
    nodes[0].rpc_async<&read_of>("b", there).cancel();
    EXPECT_EQ(there.to_here(), 100);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

int refuse_always(model&, const std::string& text) { throw std::out_of_range(text); }

TEST_P(rref_ends, are_let_go_by_the_futures_of_calls_that_have_ended) {
  auto nodes = start({"a", "b"});
  {
    auto m = nodes[0].remote<model>("b", 3);
    auto number = nodes[0].remote<&plus>("b", 1, 2);
    const auto product = m.rpc_async<&model::forward>(4);
    const auto refused = m.rpc_async<&refuse_always>(std::string("no"));
    const auto fetched = number.to_here_async();
    const auto read = nodes[0].rpc_async<&read_of>("b", number);
    const auto made = number.created();
    EXPECT_EQ(product.get(), 12);
    EXPECT_THROW(refused.get(), remote_error);
    EXPECT_EQ(fetched.get(), 3);
    EXPECT_EQ(read.get(), 3);
    made.get();
    m = {};
    number = {};
    EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().owner_rrefs == 0; }));
    EXPECT_TRUE(eventually([] { return model::count == 0; }));
    EXPECT_EQ(product.get(), 12);
    EXPECT_EQ(fetched.get(), 3);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

std::atomic<int> begun{0}, noticed{0};
void run_until_cancelled(rref<int>) {
  ++begun;
  const auto deadline = clock::now() + time_limit;
  while (!call_cancelled() && clock::now() < deadline) std::this_thread::sleep_for(1ms);
  if (call_cancelled()) ++noticed;
}
void run_until_cancelled_by_value(int) { run_until_cancelled({}); }

TEST_P(rref_ends, calls_that_take_references_can_be_cancelled) {
  auto nodes = start({"a", "b", "c"});
  begun = noticed = 0;
  {
    const auto r = nodes[0].remote<&plus>("b", 1, 2);
    const future<void> calls[] = {nodes[0].rpc_async<&run_until_cancelled>("c", r),
                                  nodes[0].rpc_async<&run_until_cancelled_by_value>("c", r)};
    ASSERT_TRUE(eventually([] { return begun == 2; }));
    for (const auto& call : calls) call.cancel();
    EXPECT_TRUE(eventually([] { return noticed == 2; }));
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

// Rule 9.
TEST_P(rref_ends, of_which_only_the_value_is_wanted_are_lent_until_the_call_is_answered) {
  auto nodes = start({"a", "b", "c"});
  const auto& a = nodes[0];
  {
    const shared_door door;
    auto on_b = a.remote<&made_late>("b", 200);
    const auto sum = a.rpc_async<&plus>("c", on_b, 1);
    EXPECT_TRUE(eventually([&] { return nodes[2].debug_info().calls_in_flight == 1; }));
    EXPECT_EQ(nodes[2].debug_info().user_rrefs, 0u);  // whoever borrows holds nothing
    auto next = a.remote<&plus>("c", on_b, 2);
    const auto timed_out = a.rpc_async<&plus>("c", on_b, 3, timeout(10ms));
    on_b = {};
    EXPECT_EQ(a.debug_info().rref_forks, 0u);
    EXPECT_EQ(a.debug_info().user_rrefs, 2u);  // what is lent, and `next`
    EXPECT_THROW(timed_out.get(), rpc_timeout);
    EXPECT_EQ(a.debug_info().user_rrefs, 2u);
    ASSERT_TRUE(door->wait_for(1));
    door->open();
    EXPECT_EQ(sum.get(), 201);
    EXPECT_EQ(next.to_here(), 202);
    EXPECT_TRUE(eventually([&] { return a.debug_info().user_rrefs == 1; }));
    EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().owner_rrefs == 0; }));
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

std::atomic<bool> gate_open;
int when_open(int x) {
  while (!gate_open) std::this_thread::sleep_for(1ms);
  return x;
}

TEST_P(rref_ends, a_lender_that_ends_ends_no_creation_that_others_know_of) {
  rpc_options narrow;
  narrow.window.messages = 2;
  narrow.max_threads = 4;
  auto nodes = start({"d", "a", "b", "c"}, narrow);
  gate_open = false;
  std::vector<future<int>> busy;
  std::thread flood;
  {
    const auto lent = nodes[1].remote<&plus>("b", 1, 2);
    EXPECT_EQ(lent.to_here(), 3);
    // Whatever c asks of b waits, the value of `lent` too.
    flood = std::thread([&] {
      for (int i = 0; i < 8; ++i)
        busy.push_back(nodes[3].rpc_async<&when_open>("b", i, timeout(time_limit)));
    });
    std::this_thread::sleep_for(100ms);
    const auto made = nodes[1].remote<&plus>("c", lent, 10);
    nodes[1].rpc_sync<&keep>("d", made);
    // c has asked b for it.
    EXPECT_TRUE(eventually([&] { return nodes[3].debug_info().user_rrefs > 0; }));
    std::this_thread::sleep_for(100ms);
  }
  nodes[1].shutdown(false);
  EXPECT_TRUE(eventually([&] { return nodes[2].world_size() == 3; }));
  gate_open = true;
  EXPECT_EQ(nodes[0].rpc_sync<&use_kept>("d"), 13);
  nodes[0].rpc_sync<&let_go>("d");
  flood.join();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(busy[static_cast<std::size_t>(i)].get(), i);
  busy.clear();
  nodes.erase(nodes.begin() + 1);
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rref_ends, that_are_lent_are_waited_for_as_long_as_the_caller_allows) {
  rpc_options hasty;
  hasty.rpc_timeout = 50ms;
  auto nodes = start({"a", "b", "c"}, hasty);
  {
    // Longer than the limit of calls that name none, which c's fetching must not have.
    const auto r = nodes[0].remote<&slow>("b", 300, timeout(0ms));
    EXPECT_EQ(nodes[0].rpc_sync<&plus>("c", r, 1, timeout(0ms)), 301);
    EXPECT_EQ(nodes[0].remote<&plus>("c", r, 1, timeout(time_limit)).to_here(timeout(time_limit)),
              301);
    // A call that is cancelled waits for nothing any more.
    gate_open = false;
    auto never = nodes[0].remote<&when_open>("b", 1, timeout(0ms));
    const auto call = nodes[0].rpc_async<&plus>("c", never, 1, timeout(0ms));
    EXPECT_TRUE(eventually([&] { return nodes[2].debug_info().calls_in_flight == 1; }));
    call.cancel();
    EXPECT_TRUE(eventually([&] { return nodes[2].debug_info().calls_in_flight == 0; }));
    gate_open = true;
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rref_ends, creations_that_time_out_report_that_and_nothing_else) {
  auto nodes = start({"a", "b"});
  for (int i = 0; i < 300; ++i) {
    const auto r = nodes[0].remote<&slow>(i % 2 == 0 ? "a" : "b", 1, timeout(1ms));
    try {
      EXPECT_EQ(r.to_here(), 1);
    } catch (const rpc_timeout&) {
    }
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rref_ends, that_are_lent_come_from_where_they_are) {
  auto nodes = start({"a", "b", "c"});
  const auto& a = nodes[0];
  {
    const auto on_a = a.make_rref(3);
    const auto on_b = a.remote<&plus>("b", 1, 2);
    const auto failed = a.remote<&refuse>("b", "no");
    for (const auto* where : {"a", "b", "c"}) {
      EXPECT_EQ(a.rpc_sync<&plus>(where, on_a, on_b), 6) << where;
      EXPECT_THROW(a.rpc_sync<&plus>(where, failed, 1), std::exception) << where;
      EXPECT_THROW(a.rpc_sync<&plus>(where, rref<int>(), 1), invalid_argument) << where;
      EXPECT_THROW(a.remote<&plus>(where, rref<int>(), 1).to_here(), invalid_argument) << where;
      EXPECT_THROW(nodes[1].rpc_sync<&plus>(where, on_a, 1), encode_error) << where;
    }
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

// Cannot be read.
struct riddle {
  int x = 0;
};
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, riddle& r) {
  if constexpr (Inspector::writes_state) throw std::length_error("nobody can read this");
  return f(r.x);
}
void solve(riddle, rref<int>, rref<int>) {}

TEST_P(rref_ends, behind_an_argument_that_cannot_be_read_are_given_back) {
  auto nodes = start({"a", "b", "c"});
  {
    const auto mine = nodes[0].make_rref(1);
    const auto other = nodes[0].remote<&plus>("c", 1, 2);
    EXPECT_EQ(other.to_here(), 3);
    for (int i = 0; i < 5; ++i) {
      EXPECT_THROW(nodes[0].rpc_sync<&solve>("b", riddle{}, mine, other), error);
      EXPECT_THROW(nodes[0].remote<&solve>("b", riddle{}, mine, other).to_here(), error);
    }
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rref_ends, of_nothing_are_refused_and_leave_no_hole) {
  auto nodes = start({"a", "b"});
  {
    EXPECT_THROW(nodes[0].remote<&plus>("b", future<int>(), 1), invalid_argument);
    EXPECT_EQ(nodes[0].remote<&plus>("b", 1, 2).to_here(), 3);
    const auto mine = nodes[0].make_rref(1);
    EXPECT_THROW(rref<double>(mine.core()).local_value(), invalid_argument);
    EXPECT_THROW(rref<double>(nodes[0].remote<&plus>("b", 1, 2).core()).to_here(),
                 invalid_argument);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

std::atomic<int> waiting{0};
task<> wait_for_value(rref<int> r) {
  struct counted {
    counted() { ++waiting; }
    ~counted() { --waiting; }
  } const here;
  co_await r.to_here_async();
}
void begin_to_wait(rref<int> r) { (void)wait_for_value(std::move(r)); }

TEST_P(rref_ends, end_with_their_owner_and_so_does_what_waits_for_them) {
  auto nodes = start({"a", "b"});
  const auto mine = nodes[0].make_rref(3);
  {
    const auto open = nodes[0].remote<&never_there>("b", timeout(0s));
    nodes[0].rpc_sync<&begin_to_wait>("b", open);
    EXPECT_EQ(waiting, 1);
  }
  nodes[0].shutdown(false);
  EXPECT_THROW(mine.to_here(timeout(time_limit)), not_initialized);
  EXPECT_THROW(mine.to_here_async(), not_initialized);
  nodes[1].shutdown(false);
  nodes.clear();
  EXPECT_TRUE(eventually([] { return waiting == 0; }));
}

}  // namespace
}  // namespace troupe::test
