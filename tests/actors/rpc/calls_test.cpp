// Plain functions called on other nodes: what goes in, what comes back, who answers.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include <map>
#include <optional>
#include <variant>

#include "tests/actors/node/job.hpp"

namespace troupe::test {

struct measurement {
  std::string name;
  std::vector<double> values;
  at::Tensor mean;
};
TROUPE_MESSAGE(measurement, name, values, mean)

struct out_of_paper : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace {

class calls : public on_networks {};
TROUPE_ON_NETWORKS(calls);

std::atomic<int> noted{0};

int sum(int a, int b) { return a + b; }
void take_note(int x) { noted = x; }
std::string who_am_i() { return this_node().name(); }
std::uint32_t rank_of_here() { return this_node().rank(); }
template <class T>
T same(const T& x) {
  return x;
}
at::Tensor twice(const at::Tensor& x) { return x * 2; }
std::vector<at::Tensor> reversed(std::vector<at::Tensor> xs) {
  std::reverse(xs.begin(), xs.end());
  return xs;
}
double spoil(at::Tensor x) {
  x.zero_();
  return x.sum().item<double>();
}
measurement averaged(measurement m) {
  m.mean = at::tensor(m.values).mean();
  return m;
}
void fail(const std::string& text) { throw std::out_of_range(text); }
void fail_with_own() { throw out_of_paper("tray 2"); }
void fail_with_number() { throw 7; }
void fail_with_ours() { throw invalid_argument("not like this"); }
void fail_at(const std::string& there) { this_node().rpc_sync<&fail>(there, std::string("deep")); }
void fail_by(const std::string& first, const std::string& second) {
  this_node().rpc_sync<&fail_at>(first, second);
}
void refuse_at(const std::string& there) { this_node().rpc_sync<&fail_with_ours>(there); }
int sum_at(const std::string& there, int a, int b) {
  return this_node().rpc_sync<&sum>(there, a, b);
}
future<int> sum_later(int a, int b) {
  return this_node().rpc_async<&sum>(this_node().name(), a, b).then([](int x) { return 10 * x; });
}

TEST_P(calls, run_on_the_node_named) {
  auto nodes = start({"a", "b", "c"});
  for (auto& from : nodes)
    for (auto& to : nodes) {
      EXPECT_EQ(from.rpc_sync<&who_am_i>(to.name()), to.name());
      EXPECT_EQ(from.rpc_sync<&rank_of_here>(to.rank()), to.rank());
      EXPECT_EQ(from.rpc_sync<&rank_of_here>(from.get_worker_info(to.name())), to.rank());
    }
}

TEST_P(calls, without_a_result_are_over_when_they_return) {
  auto nodes = start({"a", "b"});
  for (int i = 1; i <= 20; ++i) {
    nodes[0].rpc_sync<&take_note>(i % 2, i);
    EXPECT_EQ(noted, i);
  }
}

TEST_P(calls, carry_values_of_many_types) {
  auto nodes = start({"a", "b"});
  auto& a = nodes[0];
  for (int to : {0, 1}) {
    EXPECT_EQ(a.rpc_sync<&same<std::int64_t>>(to, INT64_MIN), INT64_MIN);
    EXPECT_EQ(a.rpc_sync<&same<double>>(to, 0.1), 0.1);
    EXPECT_EQ(a.rpc_sync<&same<bool>>(to, true), true);
    EXPECT_EQ(a.rpc_sync<&same<std::string>>(to, ""), "");
    const std::string large(3'000'000, 'x');
    EXPECT_EQ(a.rpc_sync<&same<std::string>>(to, large), large);
    const std::map<std::string, std::vector<int>> map{{"one", {1}}, {"none", {}}};
    EXPECT_EQ((a.rpc_sync<&same<std::map<std::string, std::vector<int>>>>(to, map)), map);
    const std::optional<std::string> some("x"), none;
    EXPECT_EQ(a.rpc_sync<&same<std::optional<std::string>>>(to, some), some);
    EXPECT_EQ(a.rpc_sync<&same<std::optional<std::string>>>(to, none), none);
    const std::variant<int, std::string> either("y");
    EXPECT_EQ((a.rpc_sync<&same<std::variant<int, std::string>>>(to, either)), either);
    const std::tuple<int, std::string, bool> three{1, "z", false};
    EXPECT_EQ((a.rpc_sync<&same<std::tuple<int, std::string, bool>>>(to, three)), three);
    auto m = a.rpc_sync<&averaged>(to, measurement{"m", {1, 2, 6}, {}});
    EXPECT_EQ(m.name, "m");
    EXPECT_EQ(m.mean.item<double>(), 3);
  }
}

TEST_P(calls, carry_thousands_of_tensors) {
  auto nodes = start({"a", "b"});
  std::vector<at::Tensor> many;
  for (int i = 0; i < 6'000; ++i) many.push_back(at::full({2}, i));
  const auto back = nodes[0].rpc_sync<&reversed>("b", many);
  ASSERT_EQ(back.size(), many.size());
  for (std::size_t i = 0; i < many.size(); ++i)
    ASSERT_TRUE(at::equal(back[i], many[many.size() - 1 - i])) << i;
  shut_down(nodes);
}

TEST_P(calls, carry_tensors_both_ways) {
  auto nodes = start({"a", "b"});
  for (std::int64_t size : {0, 1, 1'000, 40'000, 2'000'000}) {
    auto x = at::arange(size, at::kInt);
    for (int to : {0, 1}) EXPECT_TRUE(at::equal(nodes[0].rpc_sync<&twice>(to, x), x * 2)) << size;
  }
  const std::vector<at::Tensor> three{at::ones({2, 3}), at::arange(100'000), at::tensor(4.5)};
  auto back = nodes[0].rpc_sync<&reversed>("b", three);
  ASSERT_EQ(back.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(back[i], three[2 - i]));
}

TEST_P(calls, take_arguments_by_value_also_on_the_same_node) {
  auto nodes = start({"a", "b"});
  for (int to : {0, 1}) {
    auto x = at::ones({50'000});
    EXPECT_EQ(nodes[0].rpc_sync<&spoil>(to, x), 0);
    EXPECT_EQ(x.sum().item<double>(), 50'000);
  }
}

TEST_P(calls, throw_what_the_callee_threw) {
  auto nodes = start({"a", "b"});
  for (int to : {0, 1}) {
    auto why = fault_of<remote_error>([&] { nodes[0].rpc_sync<&fail>(to, "no such thing"); });
    EXPECT_EQ(why.type, "std::out_of_range");
    EXPECT_EQ(why.text, "no such thing");
    EXPECT_EQ(why.node, nodes[to].name());
    EXPECT_THAT(why.function, testing::HasSubstr("fail"));
    why = fault_of<remote_error>([&] { nodes[0].rpc_sync<&fail_with_own>(to); });
    EXPECT_EQ(why.type, "troupe::test::out_of_paper");
    EXPECT_EQ(why.text, "tray 2");
    why = fault_of<remote_error>([&] { nodes[0].rpc_sync<&fail_with_number>(to); });
    EXPECT_EQ(why.type, "int");
    why = fault_of<invalid_argument>([&] { nodes[0].rpc_sync<&fail_with_ours>(to); });
    EXPECT_EQ(why.text, "not like this");
  }
  EXPECT_EQ(nodes[0].rpc_sync<&sum>("b", 1, 1), 2);
}

TEST_P(calls, pass_an_exception_on_with_the_place_it_comes_from) {
  auto nodes = start({"a", "b", "c"});
  auto why = fault_of<remote_error>([&] { nodes[0].rpc_sync<&fail_at>("b", "c"); });
  EXPECT_EQ(why.type, "std::out_of_range");
  EXPECT_EQ(why.text, "deep");
  EXPECT_EQ(why.node, "c");
  EXPECT_THAT(why.function, testing::HasSubstr("fail"));
  EXPECT_THAT(why.function, testing::Not(testing::HasSubstr("fail_at")));
  EXPECT_THAT(why.via, testing::AllOf(testing::HasSubstr("fail_at"), testing::EndsWith(" on b")));
}

// Each that has passed it on, also where it comes back to a node that it has been to.
TEST_P(calls, pass_an_exception_on_with_all_that_it_came_through) {
  auto nodes = start({"a", "b", "c"});
  try {
    nodes[0].rpc_sync<&fail_by>("b", "c", "b");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const remote_error& e) {
    EXPECT_EQ(e.node(), "b");
    EXPECT_THAT(e.fault().via, testing::MatchesRegex(".*fail_at.* on c\n.*fail_by.* on b"));
    EXPECT_THAT(e.what(), testing::MatchesRegex(
                              "std::out_of_range: deep \\[.*fail.* on b, called by .*fail_at.* on "
                              "c, called by .*fail_by.* on b\\]"));
  }
  // An error of ours keeps its class.
  const auto why = fault_of<invalid_argument>([&] { nodes[0].rpc_sync<&refuse_at>("b", "c"); });
  EXPECT_EQ(why.text, "not like this");
  EXPECT_EQ(why.node, "c");
  EXPECT_THAT(why.via, testing::AllOf(testing::HasSubstr("refuse_at"), testing::EndsWith(" on b")));
}

TEST_P(calls, may_answer_with_a_future) {
  auto nodes = start({"a", "b"});
  EXPECT_EQ(nodes[0].rpc_sync<&sum_later>("b", 2, 3), 50);
  EXPECT_EQ(nodes[0].rpc_sync<&sum_later>("a", 2, 3), 50);
}

TEST_P(calls, may_go_on_to_other_nodes_and_to_the_caller) {
  auto nodes = start({"a", "b", "c"});
  for (const std::string there : {"a", "b", "c"})
    EXPECT_EQ(nodes[0].rpc_sync<&sum_at>("b", there, 2, 3), 5) << there;
}

TEST_P(calls, refuse_a_destination_that_there_is_not) {
  auto nodes = start({"a", "b"});
  const auto& a = nodes[0];
  auto why = fault_of<unknown_worker>([&] { a.rpc_sync<&sum>("zebra", 1, 2); });
  EXPECT_THAT(why.text, testing::HasSubstr("could not find destination"));
  EXPECT_THAT(why.text, testing::HasSubstr("zebra"));
  why = fault_of<unknown_worker>([&] { a.rpc_async<&sum>(2, 1, 2); });
  EXPECT_THAT(why.text, testing::HasSubstr("rank 2"));
  EXPECT_THROW(a.rpc_sync<&sum>(-1, 1, 2), unknown_worker);
  EXPECT_THROW(a.rpc_sync<&sum>(std::int64_t{1} << 32, 1, 2), unknown_worker);
  EXPECT_THROW(a.get_worker_info("zebra"), unknown_worker);
  why = fault_of<unknown_worker>([&] { a.rpc_sync<&sum_at>("b", "zebra", 1, 2); });
  EXPECT_THAT(why.text, testing::HasSubstr("zebra"));
}

TEST_P(calls, a_thousand_in_flight) {
  auto nodes = start({"a", "b"});
  std::vector<future<int>> pending;
  for (int i = 0; i < 1000; ++i) pending.push_back(nodes[0].rpc_async<&sum>(i % 2, i, 1));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(pending[i].get(), i + 1);
  EXPECT_EQ(nodes[0].debug_info().calls_in_flight, 0u);
}

TEST_P(calls, from_four_threads) {
  auto nodes = start({"a", "b"});
  std::atomic<int> right{0};
  std::vector<int> threads{0, 1, 2, 3};
  all_at_once(threads, [&](int thread) {
    for (int i = 0; i < 500; ++i)
      right += nodes[thread % 2].rpc_sync<&sum>((thread / 2) % 2, i, thread) == i + thread;
  });
  EXPECT_EQ(right, 2000);
}

TEST(this_node, is_none_outside_of_handlers) {
  EXPECT_THROW(this_node(), not_initialized);
  auto nodes = local_nodes({"a", "b"});
  nodes[0].rpc_sync<&sum>("b", 1, 2);
  EXPECT_THROW(this_node(), not_initialized);
}

TEST(this_node, names_on_a_thread_of_the_program_what_to_use) {
  auto nodes = local_nodes({"a"});
  std::string text;
  std::thread([&text, here = nodes[0]] {
    text = fault_of<not_initialized>([] { this_node(); }).text;
    EXPECT_EQ(here.rpc_sync<&who_am_i>("a"), "a");
  }).join();
  EXPECT_THAT(text, testing::HasSubstr("use the node that init_rpc or local_nodes has returned"));
}

}  // namespace
}  // namespace troupe::test
