// Remote references: made, used, passed on and dropped. The numbers are those of the rules in
// rref_table.hpp.

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <sstream>
#include <unordered_set>

#include "tests/actors/job.hpp"

namespace troupe::test {
namespace {

class rrefs : public on_networks {};
TROUPE_ON_NETWORKS(rrefs);

at::Tensor add(const at::Tensor& a, const at::Tensor& b) { return a + b; }
at::Tensor ones(int64_t n) { return at::ones({n}); }
int plus(int a, int b) { return a + b; }
void nothing(int) {}
int refuse(const std::string& text) { throw std::out_of_range(text); }

// Neither copied nor moved nor sent: it lives on its owner. Counted.
class model {
public:
  explicit model(int weight) : weight_(weight) {
    if (weight < 0) throw std::invalid_argument("no negative weight");
    ++count;
  }
  model(const model&) = delete;
  ~model() { --count; }

  int forward(int x) const { return weight_ * x; }
  void set(int weight) noexcept { weight_ = weight; }
  std::string name() { return this_node().name(); }
  task<int> later(int x) {
    const int one = co_await this_node().rpc_async<&plus>("a", x, 0);
    co_return weight_* one;
  }

  static inline std::atomic<int> count{0};

private:
  std::atomic<int> weight_;
};

int doubled(int& x) { return 2 * x; }
double sum_of_tensor(const at::Tensor& x) { return x.sum().item<double>(); }
int twice(model& m, int x) { return 2 * m.forward(x); }

// Waits until nothing is left of anything.
void expect_nothing_left(const std::vector<node>& nodes) {
  for (const auto& n : nodes) {
    const auto left = [&] { return n.debug_info(); };
    EXPECT_TRUE(eventually([&] {
      return left().owner_rrefs == 0 && left().user_rrefs == 0 && left().rref_forks == 0;
    })) << n.name()
        << ": " << left().owner_rrefs << " owned, " << left().user_rrefs << " used, "
        << left().rref_forks << " forks";
  }
}

TEST_P(rrefs, a_result_stays_where_it_is_made_and_is_fetched) {
  auto nodes = start({"a", "b"});
  {
    const auto r = nodes[0].remote<&plus>("b", 1, 2);
    EXPECT_EQ(r.to_here(), 3);
    EXPECT_EQ(r.to_here(timeout(patience)), 3);
    EXPECT_EQ(r.owner_name(), "b");
    EXPECT_EQ(r.owner().id, 1u);
    EXPECT_FALSE(r.is_owner());
    EXPECT_TRUE(eventually([&] { return r.confirmed_by_owner(); }));
    EXPECT_EQ(nodes[1].debug_info().owner_rrefs, 1u);
    EXPECT_EQ(nodes[0].debug_info().user_rrefs, 1u);
    const auto t = nodes[0].remote<&add>(1, at::ones({3}), at::ones({3}));
    EXPECT_TRUE(t.to_here().equal(at::full({3}, 2.0)));
    nodes[0].remote<&nothing>("b", 1).to_here();
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rrefs, an_object_is_constructed_and_called_where_it_lives) {
  auto nodes = start({"a", "b"});
  {
    const auto m = nodes[0].remote<model>("b", 3);
    EXPECT_EQ(m.rpc_sync<&model::forward>(4), 12);
    m.rpc_sync<&model::set>(5);
    EXPECT_EQ(m.rpc_async<&model::forward>(4, timeout(patience)).get(), 20);
    EXPECT_EQ(m.rpc_sync<&model::name>(), "b");
    EXPECT_EQ(m.rpc_sync<&twice>(4), 40);
    EXPECT_EQ(m.rpc_sync<&model::later>(2), 10);
    EXPECT_EQ(m.remote<&model::forward>(6).to_here(), 30);
    EXPECT_EQ(m.rpc_sync<&model::forward>(nodes[0].rpc_async<&plus>("b", 1, 1)), 10);
    EXPECT_EQ(m.remote<&model::later>(nodes[0].rpc_async<&plus>("b", 1, 1)).to_here(), 10);
    EXPECT_EQ(model::count, 1);
  }
  EXPECT_TRUE(eventually([] { return model::count == 0; }));
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rrefs, a_result_of_an_object_outlives_the_dropping_of_the_object_s_reference) {
  auto nodes = start({"a", "b"});
  for (int i = 0; i < 200; ++i) {
    const auto r = nodes[0].remote<model>("b", 3).remote<&model::forward>(i);
    const auto f = nodes[0].remote<model>("b", 4).rpc_async<&model::forward>(i);
    EXPECT_EQ(r.to_here(), 3 * i);
    EXPECT_EQ(f.get(), 4 * i);
  }
  EXPECT_TRUE(eventually([] { return model::count == 0; }));
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rrefs, a_node_refers_to_values_of_its_own) {
  auto nodes = start({"a", "b"});
  {
    auto mine = nodes[0].make_rref(at::ones({2}));
    EXPECT_TRUE(mine.is_owner());
    EXPECT_TRUE(mine.confirmed_by_owner());
    mine.local_value().add_(1);
    EXPECT_TRUE(mine.to_here().equal(at::full({2}, 2.0)));
    EXPECT_EQ(mine.to_here().data_ptr(), mine.local_value().data_ptr());
    const auto object = nodes[0].make_rref(std::in_place_type<model>, 7);
    EXPECT_EQ(object.local_value().forward(2), 14);
    EXPECT_EQ(object.rpc_sync<&model::forward>(3), 21);
    EXPECT_THROW(nodes[0].make_rref(std::in_place_type<model>, -1), std::invalid_argument);
    const auto self = nodes[0].remote<&plus>("a", 1, 2);
    EXPECT_EQ(self.to_here(), 3);
    EXPECT_EQ(self.local_value(), 3);
    // What another node owns is no local value.
    const auto r = nodes[0].remote<&plus>("b", 1, 2);
    const auto why = fault_of<invalid_argument>([&] { r.local_value(); });
    EXPECT_THAT(why.text,
                testing::AllOf(testing::HasSubstr("on a"), testing::HasSubstr("owner is b"),
                               testing::HasSubstr(to_string(r.id()))));
  }
  EXPECT_TRUE(eventually([] { return model::count == 0; }));
  expect_nothing_left(nodes);
  shut_down(nodes);
}

// ---- Sharing: rules 2, 3 and 4
// ---------------------------------------------------------------------------------------

struct parcel {
  std::vector<rref<int>> all;
  std::map<std::string, rref<at::Tensor>> named;
};
TROUPE_MESSAGE(parcel, all, named)

int sum_of(const parcel& p) {
  double sum = 0;
  for (const auto& r : p.all) sum += r.to_here();
  for (const auto& [name, r] : p.named) sum += r.to_here().sum().item<double>();
  return static_cast<int>(sum);
}
int value_of(rref<int> r) { return r.to_here(); }
bool is_confirmed(rref<int> r) { return r.confirmed_by_owner(); }
bool is_here(rref<int> r) { return r.is_owner() && r.local_value() == 3; }
rref<int> same(rref<int> r) { return r; }
rref<int> made_here(int x) { return this_node().make_rref(x); }
int through(rref<rref<int>> r) { return r.to_here().to_here(); }
rref<int> forwarded(rref<int> r, int ttl) {
  const auto self = this_node();
  if (ttl == 0) return r;
  return self.rpc_sync<&forwarded>((self.rank() + 1) % self.world_size(), r, ttl - 1);
}

// Where the last message left a reference.
rref<int> kept;
void keep(rref<int> r) { kept = std::move(r); }
int use_kept() { return kept.to_here(); }
void let_go() { kept = {}; }

TEST_P(rrefs, are_shared_in_every_direction) {
  auto nodes = start({"a", "b", "c"});
  const auto& a = nodes[0];
  {
    const auto on_b = a.remote<&plus>("b", 1, 2);
    const auto on_a = a.make_rref(3);
    EXPECT_EQ(a.rpc_sync<&value_of>("c", on_b), 3);  // user to user
    EXPECT_EQ(a.rpc_sync<&value_of>("b", on_b), 3);  // user to owner
    EXPECT_TRUE(a.rpc_sync<&is_here>("b", on_b));
    EXPECT_EQ(a.rpc_sync<&value_of>("c", on_a), 3);  // owner to user
    EXPECT_EQ(a.rpc_sync<&value_of>("a", on_a), 3);  // to oneself
    EXPECT_EQ(a.rpc_sync<&value_of>("a", on_b), 3);
    EXPECT_EQ(a.remote<&value_of>("c", on_b).to_here(), 3);
    EXPECT_EQ(a.rpc_sync<&same>("c", on_b), on_b);
    EXPECT_EQ(a.rpc_sync<&same>("b", on_b).to_here(), 3);
    EXPECT_EQ(a.rpc_sync<&made_here>("c", 5).to_here(), 5);
    EXPECT_EQ(a.rpc_sync<&value_of>("b", a.rpc_sync<&made_here>("c", 5)), 5);
    const auto nested = a.remote<&made_here>("b", 6);  // rref<rref<int>>
    EXPECT_EQ(nested.to_here().to_here(), 6);
    EXPECT_EQ(a.rpc_sync<&through>("c", nested), 6);
    EXPECT_EQ(a.rpc_sync<&forwarded>("b", on_b, 8).to_here(), 3);
    // A value where the function wants one is fetched by the callee.
    EXPECT_EQ(a.rpc_sync<&plus>("c", on_b, on_a), 6);
    parcel p;
    p.all = {on_b, on_a, on_b, rref<int>(on_a)};
    p.named["x"] = a.remote<&ones>("c", 10);
    EXPECT_EQ(a.rpc_sync<&sum_of>("b", p), 22);
    EXPECT_EQ(a.rpc_sync<&sum_of>("c", p), 22);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rrefs, in_arguments_are_confirmed_before_the_function_runs) {
  auto nodes = start({"a", "b", "c"});
  {
    for (int i = 0; i < 100; ++i) {
      const auto r = nodes[0].remote<&plus>("b", i, 1);  // not confirmed yet
      EXPECT_TRUE(nodes[0].rpc_sync<&is_confirmed>("c", r));
      EXPECT_TRUE(nodes[0].rpc_sync<&same>("c", r).confirmed_by_owner());
    }
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rrefs, a_value_lives_as_long_as_anybody_has_a_reference) {
  auto nodes = start({"a", "b", "c"});
  for (int i = 0; i < 50; ++i) {
    // The only reference is on its way while its maker drops it.
    nodes[0].rpc_async<&keep>("c", nodes[0].remote<&plus>("b", i, i)).get();
    EXPECT_EQ(nodes[1].rpc_sync<&use_kept>("c"), 2 * i);
    nodes[0].rpc_sync<&keep>("c", nodes[0].make_rref(i));
    EXPECT_EQ(nodes[1].rpc_sync<&use_kept>("c"), i);
  }
  EXPECT_TRUE(eventually([&] { return nodes[0].debug_info().owner_rrefs == 1; }));
  nodes[1].rpc_sync<&let_go>("c");
  expect_nothing_left(nodes);
  shut_down(nodes);
}

struct give {
  rref<int> what;
};
struct tell_value {};
TROUPE_MESSAGE(give, what)
TROUPE_MESSAGE(tell_value)
using keeper = actor<accepts<give>, answers<tell_value, int>>;

keeper::behavior_type keep_one(keeper::stateful_pointer<rref<int>> self) {
  return {[self](const give& g) { self->state = g.what; },
          [self](tell_value) { return self->state.to_here(); }};
}

TEST_P(rrefs, travel_in_messages_to_actors) {
  auto nodes = start({"a", "b", "c"});
  {
    const auto holder = nodes[0].spawn_on<&keep_one>("c");
    for (int i = 0; i < 50; ++i) {
      send(holder, give{nodes[0].remote<&plus>("b", i, 1)});
      EXPECT_EQ(request(holder, tell_value{}).get(), i + 1);
    }
    EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().owner_rrefs == 1; }));
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

// ---- Failures: rule 8
// ---------------------------------------------------------------------------------------

TEST_P(rrefs, a_creation_that_fails_says_why_wherever_the_reference_is_used) {
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

TEST_P(rrefs, a_limit_that_passes_is_told_and_a_slow_creation_can_still_be_fetched) {
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
      const auto said = fault_of<rpc_timeout>([&] { given_up.to_here(timeout(10ms)); }).text;
      return said.find("RRef creation via rpc.remote() timed out") != std::string::npos;
    }));
    door->open();
    EXPECT_THROW(nodes[0].rpc_sync<&value_of>("c", given_up), rpc_timeout);
    EXPECT_THROW(given_up.rpc_sync<&doubled>(), rpc_timeout);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

// ---- What others share, and what ends
// ---------------------------------------------------------------------------------------

std::unique_ptr<promise<at::Tensor>> round_promise;
future<at::Tensor> round_result;
future<at::Tensor> one_for_all() { return round_result; }
future<int> read_of(rref<int> r) { return r.to_here_async(); }

TEST_P(rrefs, a_future_that_others_have_too_keeps_its_value) {
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

TEST_P(rrefs, giving_up_a_read_leaves_the_value_alone) {
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

std::atomic<int> begun{0}, told{0};
void run_until_cancelled(rref<int>) {
  ++begun;
  const auto deadline = clock::now() + patience;
  while (!call_cancelled() && clock::now() < deadline) std::this_thread::sleep_for(1ms);
  if (call_cancelled()) ++told;
}
void run_until_cancelled_by_value(int) { run_until_cancelled({}); }

TEST_P(rrefs, calls_that_take_references_can_be_cancelled) {
  auto nodes = start({"a", "b", "c"});
  begun = told = 0;
  {
    const auto r = nodes[0].remote<&plus>("b", 1, 2);
    const future<void> calls[] = {nodes[0].rpc_async<&run_until_cancelled>("c", r),
                                  nodes[0].rpc_async<&run_until_cancelled_by_value>("c", r)};
    ASSERT_TRUE(eventually([] { return begun == 2; }));
    for (const auto& call : calls) call.cancel();
    EXPECT_TRUE(eventually([] { return told == 2; }));
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

// Rule 9.
TEST_P(rrefs, of_which_only_the_value_is_wanted_are_lent_until_the_call_is_answered) {
  auto nodes = start({"a", "b", "c"});
  const auto& a = nodes[0];
  {
    const shared_door door;
    auto on_b = a.remote<&made_late>("b", 200);
    const auto sum = a.rpc_async<&plus>("c", on_b, 1);
    auto next = a.remote<&plus>("c", on_b, 2);
    const auto unheard = a.rpc_async<&plus>("c", on_b, 3, timeout(10ms));
    on_b = {};
    EXPECT_EQ(a.debug_info().rref_forks, 0u);
    EXPECT_EQ(nodes[2].debug_info().user_rrefs, 0u);  // whoever borrows holds nothing
    EXPECT_EQ(a.debug_info().user_rrefs, 2u);         // what is lent, and `next`
    EXPECT_THROW(unheard.get(), rpc_timeout);
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

TEST_P(rrefs, a_lender_that_ends_ends_no_creation_that_others_know_of) {
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
        busy.push_back(nodes[3].rpc_async<&when_open>("b", i, timeout(patience)));
    });
    std::this_thread::sleep_for(100ms);
    const auto made = nodes[1].remote<&plus>("c", lent, 10);
    nodes[1].rpc_sync<&keep>("d", made);
    // c has told b that it wants it.
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

TEST_P(rrefs, that_are_lent_are_waited_for_as_long_as_the_caller_says) {
  rpc_options hasty;
  hasty.rpc_timeout = 50ms;
  auto nodes = start({"a", "b", "c"}, hasty);
  {
    // Longer than the limit of calls that name none, which c's fetching must not have.
    const auto r = nodes[0].remote<&slow>("b", 300, timeout(0ms));
    EXPECT_EQ(nodes[0].rpc_sync<&plus>("c", r, 1, timeout(0ms)), 301);
    EXPECT_EQ(nodes[0].remote<&plus>("c", r, 1, timeout(patience)).to_here(), 301);
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

TEST_P(rrefs, creations_that_time_out_say_so_and_nothing_else) {
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

TEST_P(rrefs, that_are_lent_come_from_where_they_are) {
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

TEST_P(rrefs, behind_an_argument_that_cannot_be_read_are_given_back) {
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

TEST_P(rrefs, of_nothing_are_refused_and_leave_no_hole) {
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
future<int> never_there() {
  static promise<int> nobody_keeps_it;
  return nobody_keeps_it.get_future();
}

TEST_P(rrefs, end_with_their_owner_and_so_does_what_waits_for_them) {
  auto nodes = start({"a", "b"});
  const auto mine = nodes[0].make_rref(3);
  {
    const auto open = nodes[0].remote<&never_there>("b", timeout(0s));
    nodes[0].rpc_sync<&begin_to_wait>("b", open);
    EXPECT_EQ(waiting, 1);
  }
  nodes[0].shutdown(false);
  EXPECT_THROW(mine.to_here(timeout(patience)), not_initialized);
  EXPECT_THROW(mine.to_here_async(), not_initialized);
  nodes[1].shutdown(false);
  nodes.clear();
  EXPECT_TRUE(eventually([] { return waiting == 0; }));
}

// ---- What it costs, what it says
// ---------------------------------------------------------------------------------------

TEST_P(rrefs, whoever_orchestrates_moves_no_tensor) {
  auto nodes = start({"p0", "p1", "p2", "p3"});
  constexpr std::int64_t size = 1 << 20;
  const auto bytes = [](const node& n) {
    const auto t = n.debug_info().traffic;
    return t.bytes_sent + t.bytes_received;
  };
  {
    const auto& p0 = nodes[0];
    const auto before = bytes(p0);
    const auto ra = p0.remote<&ones>("p1", size);
    const auto rb = p0.remote<&ones>("p2", size);
    const auto rc = p0.remote<&add>("p3", ra, rb);
    const auto rd = p0.remote<&add>("p3", rc, rc);
    EXPECT_EQ(p0.rpc_sync<&sum_of_tensor>("p3", rd), 4.0 * size);
    EXPECT_LT(bytes(p0) - before, 20'000u);
    // The values went straight to p3, one float tensor of each.
    EXPECT_GE(bytes(nodes[3]), 2u * 4u * size);
    EXPECT_TRUE(rd.to_here().equal(at::full({size}, 4.0)));
    EXPECT_GE(bytes(p0) - before, 4u * size);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rrefs, compare_hash_and_print) {
  auto nodes = start({"a", "b"});
  {
    const auto r = nodes[0].remote<&plus>("b", 1, 2);
    const auto s = nodes[0].remote<&plus>("b", 1, 2);
    const auto copy = r;
    EXPECT_EQ(r, copy);
    EXPECT_FALSE(r == s);
    const std::unordered_set<rref<int>> set{r, copy, s, rref<int>()};
    EXPECT_EQ(set.size(), 3u);
    std::ostringstream text;
    text << r << ' ' << rref<int>();
    EXPECT_EQ(text.str(),
              "rref<int>(rref_id(created_on=0, owner=1, number=1) on b) rref<int>(none)");
    EXPECT_EQ(rref<at::Tensor>::type(), "at::Tensor");
  }
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
