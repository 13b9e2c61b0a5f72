// Profiles that go over nodes: of a thread's calls, by Troupe and by libtorch's legacy profiler, of
// all that a process serves, and their trace.

#include <ATen/TensorOperators.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/profiler_legacy.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"
#include "tests/actors/telemetry/profiling_testing.hpp"

namespace troupe::test {
// In a namespace with a name, which recorded names hold.
namespace profiled {

inline at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b) { return a + b; }
inline at::Tensor product_at(const std::string& there, const at::Tensor& a) {
  return at::mul(this_node().rpc_sync<&sum_of>(there, a, a), a);
}
inline void add_and_fail(const at::Tensor& a) {
  const auto sum = a + a;
  throw std::domain_error("on purpose");
}
inline int many_sums(int count) {
  const auto a = at::ones({2});
  for (int i = 0; i < count; ++i) (void)(a + a);
  return count;
}

}  // namespace profiled

namespace {

class profiles : public on_networks {};
TROUPE_ON_NETWORKS(profiles);

const std::string here = "troupe::test::profiled::";

TEST_P(profiles, of_a_thread_show_what_callees_do) {
  auto nodes = start({"a", "b"});
  const auto x = at::ones({2, 3});
  nodes[0].rpc_sync<&profiled::sum_of>("b", x, x);  // before it begins
  profile recorded(nodes[0], {.shapes = true, .memory = true});
  nodes[0].rpc_sync<&profiled::sum_of>("b", x, x);
  std::thread([&] { nodes[0].rpc_sync<&profiled::sum_of>("b", x, x); }).join();  // another thread's
  const auto events = recorded.stop();
  nodes[0].rpc_sync<&profiled::sum_of>("b", x, x);
  const auto name = "rpc_sync#" + here + "sum_of(a -> b)";
  const auto call = only(events, name);
  EXPECT_EQ(call.node, 0u);
  EXPECT_FALSE(call.remote);
  EXPECT_TRUE(call.async);
  const auto whole = only(events, name + "#remote_op: rpc#" + here + "sum_of(a -> b)");
  EXPECT_EQ(whole.node, 1u);
  EXPECT_EQ(whole.number, call.number);
  const auto add = only(events, name + "#remote_op: aten::add");
  EXPECT_EQ(add.node, 1u);
  EXPECT_TRUE(add.remote);
  ASSERT_GE(add.shapes.size(), 2u);
  EXPECT_EQ(add.shapes[0], (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(add.shapes[1], (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(add.host_bytes, 24);
  EXPECT_LE(whole.start_ns, add.start_ns);
  EXPECT_LE(end_of(add), end_of(whole));
  EXPECT_LE(end_of(whole), end_of(call));
  EXPECT_TRUE(recorded.stop().empty());
  shut_down(nodes);
}

TEST_P(profiles, have_shapes_and_memory_only_if_asked_for) {
  auto nodes = start({"a", "b"});
  profile recorded(nodes[0]);
  nodes[0].rpc_sync<&profiled::sum_of>("b", at::ones({2}), at::ones({2}));
  const auto events = recorded.stop();
  EXPECT_FALSE(named(events, "aten::ones").empty());  // of its own
  EXPECT_FALSE(named(events, "rpc_sync#" + here + "sum_of(a -> b)#remote_op: aten::add").empty());
  for (const auto& one : events) {
    EXPECT_TRUE(one.shapes.empty()) << one.name;
    EXPECT_EQ(one.host_bytes, 0) << one.name;
  }
  shut_down(nodes);
}

TEST_P(profiles, distinguish_kinds_of_calls) {
  auto nodes = start({"a", "b"});
  const auto x = at::ones({2});
  profile recorded(nodes[0]);
  nodes[0].rpc_async<&profiled::sum_of>("b", x, x).get();
  const auto value = nodes[0].remote<&profiled::sum_of>("b", x, x);
  ASSERT_TRUE(eventually([&] { return value.confirmed_by_owner(); }));
  EXPECT_THROW(nodes[0].rpc_sync<&profiled::add_and_fail>("b", x), remote_error);
  nodes[0].rpc_sync("b", "aten::mul", x, x);
  const auto events = recorded.stop();
  const auto op = "#remote_op: aten::add";
  EXPECT_EQ(only(events, "rpc_async#" + here + "sum_of(a -> b)" + op).node, 1u);
  EXPECT_EQ(only(events, "rpc_remote#" + here + "sum_of(a -> b)" + op).node, 1u);
  EXPECT_EQ(only(events, "rpc_sync#" + here + "add_and_fail(a -> b)" + op).node, 1u);
  EXPECT_EQ(only(events, "rpc_sync#aten::mul(a -> b)#remote_op: aten::mul").node, 1u);
  shut_down(nodes);
}

TEST_P(profiles, follow_calls_from_node_to_node) {
  auto nodes = start({"a", "b", "c"});
  profile recorded(nodes[0]);
  nodes[0].rpc_sync<&profiled::product_at>("b", std::string("c"), at::ones({2}));
  const auto events = recorded.stop();
  const auto outer = "rpc_sync#" + here + "product_at(a -> b)#remote_op: ";
  EXPECT_EQ(only(events, outer + "aten::mul").node, 1u);
  const auto inner = outer + "rpc_sync#" + here + "sum_of(b -> c)";
  EXPECT_EQ(only(events, inner).node, 1u);
  EXPECT_EQ(only(events, inner + "#remote_op: aten::add").node, 2u);
  shut_down(nodes);
}

// What a function or an operator takes is fetched first, and it runs later.
TEST_P(profiles, have_what_waits_for_its_arguments) {
  auto nodes = start({"a", "b", "c"});
  const auto x = nodes[0].remote<&profiled::sum_of>("c", at::ones({2}), at::ones({2}));
  x.to_here();
  profile recorded(nodes[0]);
  server_process_global_profile process;
  nodes[0].rpc_sync<&profiled::sum_of>("b", x, x);
  nodes[0].rpc_sync("b", "aten::neg", x);
  const auto events = recorded.stop(), served = process.stop();
  EXPECT_EQ(only(events, "rpc_sync#" + here + "sum_of(a -> b)#remote_op: aten::add").node, 1u);
  EXPECT_EQ(only(events, "rpc_sync#aten::neg(a -> b)#remote_op: aten::neg").node, 1u);
  EXPECT_EQ(only(served, "aten::add").node, 1u);
  EXPECT_EQ(only(served, "aten::neg").node, 1u);
  shut_down(nodes);
}

// Too much for one envelope: it must not come after the answer.
TEST_P(profiles, have_all_of_a_long_call) {
  auto nodes = start({"a", "b"});
  profile recorded(nodes[0]);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(nodes[0].rpc_sync<&profiled::many_sums>("b", 500), 500);
  const auto events = recorded.stop();
  EXPECT_EQ(named(events, "rpc_sync#" + here + "many_sums(a -> b)#remote_op: aten::add").size(),
            5'000u);
  shut_down(nodes);
}

TEST(profile, belongs_to_one_thread_that_has_no_other) {
  auto nodes = local_nodes({"a"});
  {
    profile one(nodes[0]);
    EXPECT_THROW(profile(nodes[0], {}), invalid_argument);
    std::thread([&] { EXPECT_THROW(one.stop(), invalid_argument); }).join();
  }
  profile two(nodes[0]);
  EXPECT_EQ(nodes[0].rpc_sync<&profiled::many_sums>("a", 3), 3);
  EXPECT_EQ(named(two.stop(), "rpc_sync#" + here + "many_sums(a -> a)#remote_op: aten::add").size(),
            3u);
  shut_down(nodes);
}

// ---- libtorch's own

using torch::autograd::profiler::LegacyEvent;

std::vector<LegacyEvent> all_of(const torch::autograd::profiler::thread_event_lists& lists) {
  std::vector<LegacyEvent> out;
  for (const auto& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}

void begin_legacy() {
  using torch::profiler::impl::ProfilerConfig;
  torch::autograd::profiler::enableProfilerLegacy(
      ProfilerConfig(torch::profiler::impl::ProfilerState::CPU, /*report_input_shapes=*/true,
                     /*profile_memory=*/true));
}

// The push of the one range of that name.
const LegacyEvent* push_of(const std::vector<LegacyEvent>& all, const std::string& name) {
  const LegacyEvent* found = nullptr;
  for (const auto& one : all)
    if (one.kindStr() == "push" && one.name() == name) {
      EXPECT_EQ(found, nullptr) << name;
      found = &one;
    }
  EXPECT_NE(found, nullptr) << name;
  return found;
}
const LegacyEvent* pop_of(const std::vector<LegacyEvent>& all, const LegacyEvent& push) {
  for (const auto& one : all)
    if (one.kindStr() == "pop" && one.handle() == push.handle() && one.nodeId() == push.nodeId())
      return &one;
  return nullptr;
}

TEST_P(profiles, of_libtorch_get_what_callees_do) {
  auto nodes = start({"a", "b"});
  const auto x = at::ones({2, 3});
  begin_legacy();
  nodes[0].rpc_sync<&profiled::sum_of>("b", x, x);
  const auto events = all_of(torch::autograd::profiler::disableProfilerLegacy());
  const auto name = "rpc_sync#" + here + "sum_of(a -> b)";
  const auto* const call = push_of(events, name);
  ASSERT_TRUE(call);
  EXPECT_FALSE(call->isRemote());
  EXPECT_TRUE(pop_of(events, *call));
  const auto* const add = push_of(events, name + "#remote_op: aten::add");
  ASSERT_TRUE(add);
  EXPECT_TRUE(add->isRemote());
  EXPECT_EQ(add->nodeId(), 1);
  ASSERT_GE(add->shapes().size(), 2u);
  EXPECT_EQ(add->shapes()[1], (std::vector<std::int64_t>{2, 3}));
  const auto* const end = pop_of(events, *add);
  ASSERT_TRUE(end);
  EXPECT_GE(end->cpuUs(), add->cpuUs());
  // What the sum takes; the call as a whole gives it back.
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const LegacyEvent& one) {
    return one.isRemote() && one.nodeId() == 1 && one.cpuMemoryUsage() == 24;
  }));
  shut_down(nodes);
}

TEST_P(profiles, of_libtorch_record_an_answer_that_another_thread_takes) {
  auto nodes = start({"a", "b"});
  const auto x = at::ones({2});
  begin_legacy();
  const auto call = nodes[0].rpc_async<&profiled::sum_of>("b", x, x);
  EXPECT_TRUE(eventually([&] { return call.ready(); }));  // this thread drives no network
  const auto late = nodes[0].rpc_async<&profiled::many_sums>("b", 1);
  const auto events = all_of(torch::autograd::profiler::disableProfilerLegacy());
  const auto* const push = push_of(events, "rpc_async#" + here + "sum_of(a -> b)");
  ASSERT_TRUE(push);
  EXPECT_TRUE(pop_of(events, *push));
  EXPECT_TRUE(push_of(events, "rpc_async#" + here + "sum_of(a -> b)#remote_op: aten::add"));
  EXPECT_EQ(late.get(), 1);  // which no profiler waits for any more
  shut_down(nodes);
}

// ---- Of a process

TEST_P(profiles, of_a_process_have_what_all_its_nodes_serve) {
  auto nodes = start({"a", "b", "c"});
  const auto x = at::ones({2});
  const auto adder = nodes[0].spawn_on<&count_from>("b", 0);
  server_process_global_profile recorded({.shapes = true});
  EXPECT_THROW(server_process_global_profile(), invalid_argument);
  std::vector<int> threads{0, 1, 2, 3};
  all_at_once(threads, [&](int) {
    for (int i = 0; i < 25; ++i) nodes[0].rpc_sync<&profiled::sum_of>(i % 2 ? "b" : "c", x, x);
  });
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(request(adder, add{1}).get(), i);
  const auto events = recorded.stop();
  EXPECT_TRUE(recorded.stop().empty());
  nodes[0].rpc_sync<&profiled::sum_of>("b", x, x);
  EXPECT_EQ(named(events, "rpc#" + here + "sum_of(a -> b)").size(), 48u);
  EXPECT_EQ(named(events, "rpc#" + here + "sum_of(a -> c)").size(), 52u);
  int of_b = 0;
  for (const auto& one : named(events, "aten::add")) {
    ASSERT_GE(one.shapes.size(), 2u);
    EXPECT_EQ(one.shapes[1], std::vector<std::int64_t>{2});
    of_b += one.node == 1;
  }
  EXPECT_EQ(of_b, 48);
  // That of the last one may end after its answer.
  EXPECT_GE(named(events, "actor#troupe::test::add(a -> b)").size(), 2u);
  const server_process_global_profile another;
  shut_down(nodes);
}

TEST_P(profiles, of_a_process_and_of_a_caller_go_together) {
  auto nodes = start({"a", "b"});
  const auto x = at::ones({2});
  server_process_global_profile process;
  profile mine(nodes[0], {.shapes = true});
  nodes[0].rpc_sync<&profiled::sum_of>("b", x, x);
  const auto own = mine.stop(), served = process.stop();
  EXPECT_FALSE(
      only(own, "rpc_sync#" + here + "sum_of(a -> b)#remote_op: aten::add").shapes.empty());
  const auto add = only(served, "aten::add");
  EXPECT_EQ(add.node, 1u);
  EXPECT_TRUE(add.shapes.empty());  // which only the caller has asked for
  shut_down(nodes);
}

// Each process profiles what it serves itself: in a trace of all nothing is there twice.
TEST_P(profiles, of_a_process_ask_no_other_node) {
  auto nodes = start({"a", "b", "c"});
  server_process_global_profile process;
  nodes[0].rpc_sync<&profiled::product_at>("b", std::string("c"), at::ones({2}));
  const auto events = process.stop();
  EXPECT_EQ(only(events, "aten::add").node, 2u);
  EXPECT_EQ(only(events, "rpc_sync#" + here + "sum_of(b -> c)").node, 1u);
  EXPECT_TRUE(std::none_of(events.begin(), events.end(),
                           [](const profile_event& one) { return one.remote; }));
  shut_down(nodes);
}

// ---- Traces

TEST_P(profiles, become_one_trace) {
  auto nodes = start({"a", "b"});
  profile mine(nodes[0], {.shapes = true});
  nodes[0].rpc_sync<&profiled::sum_of>(1, at::ones({2}), at::ones({2}));
  profile_event other;
  other.name = "say \"other\"\n";
  other.node = 7;
  const auto events = mine.stop();
  ASSERT_FALSE(events.empty());
  other.start_ns = events.front().start_ns + 5'000'000;
  std::ostringstream out;
  write_chrome_trace(out, {{events}, {{other}, 3ms}}, nodes[0].workers());
  const auto trace = nlohmann::json::parse(out.str());
  bool found = false, others = false;
  std::map<int, std::string> processes;
  for (const auto& one : trace.at("traceEvents")) {
    const auto name = one.at("name").get<std::string>();
    if (name == "process_name")
      processes[one.at("pid").get<int>()] = one.at("args").at("name").get<std::string>();
    if (name == other.name) {
      others = true;
      EXPECT_EQ(one.at("ts").get<double>(), 2'000);  // 5 ms later, by a clock that is 3 ms ahead
    }
    if (!name.ends_with("#remote_op: aten::add")) continue;
    found = true;
    EXPECT_EQ(one.at("ph"), "X");
    EXPECT_EQ(one.at("pid"), 1);
    EXPECT_EQ(one.at("args").at("node_id"), 1);
    EXPECT_EQ(one.at("args").at("Input Dims").at(0).at(0), 2);
    EXPECT_GE(one.at("ts").get<double>(), 0);
  }
  EXPECT_TRUE(found);
  EXPECT_TRUE(others);
  EXPECT_EQ(processes, (std::map<int, std::string>{{0, "a"}, {1, "b"}, {7, "rank 7"}}));
  EXPECT_THROW(write_chrome_trace("/no/such/folder/trace.json", {}, nodes[0].workers()),
               invalid_argument);
  shut_down(nodes);
}

TEST_P(profiles, know_how_far_clocks_are_apart) {
  auto nodes = start({"a", "b"});
  const auto before = std::chrono::steady_clock::now();
  const auto ahead = clock_ahead(nodes[0], "b");
  // The clock is the same, and the quickest of the calls was no longer than all of them.
  EXPECT_LE(std::chrono::abs(ahead), std::chrono::steady_clock::now() - before);
  EXPECT_THROW(clock_ahead(nodes[0], "b", 0), invalid_argument);
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
