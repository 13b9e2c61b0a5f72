// What operators and functions called by their names leave on other nodes, and take from there.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "tests/actors/node/job.hpp"
#include "tests/log_lines.hpp"
#include "troupe/messages/codec/archive.hpp"

namespace troupe::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using ints = std::vector<std::int64_t>;
using tensors = std::vector<at::Tensor>;

class operator_references : public on_networks {};
TROUPE_ON_NETWORKS(operator_references);

at::Tensor twice(const at::Tensor& x) { return 2 * x; }
double sum_of(const at::Tensor& x) { return x.sum().item<double>(); }
rref<at::Tensor> ones_here(std::int64_t n) { return this_node().make_rref(at::ones({n})); }
at::Tensor ones_behind_door() {
  shared_door::current()->pass();
  return at::ones({2});
}
// In one process: which memory it is.
std::uint64_t address(const at::Tensor& x) { return reinterpret_cast<std::uint64_t>(x.data_ptr()); }
at::Tensor times(const at::Tensor& x, double by) {
  if (by < 0) throw std::out_of_range("less than nothing");
  return x * by;
}
TROUPE_FUNCTION_AS("references address", address)
TROUPE_FUNCTION_AS("references times", times)

using times_function = at::Tensor(at::Tensor, double);
using address_function = std::uint64_t(at::Tensor);

// An operator that waits for one of another node.
std::int64_t bounce(std::int64_t depth, std::string other) {
  if (depth == 0) return 0;
  const auto here = this_node();
  return 1 + here.rpc_sync(other, "troupe_references_test::bounce", depth - 1, here.name(),
                           timeout(0ms))
                 .to<std::int64_t>();
}
TORCH_LIBRARY(troupe_references_test, library) { library.def("bounce", bounce); }

void expect_nothing_left(const std::vector<node>& nodes) {
  for (const auto& n : nodes) {
    const auto left = [&] { return n.debug_info(); };
    EXPECT_TRUE(eventually([&] {
      return left().owner_rrefs == 0 && left().user_rrefs == 0 && left().rref_forks == 0 &&
             left().calls_in_flight == 0;
    })) << n.name()
        << ": " << left().owner_rrefs << " owned, " << left().user_rrefs << " used, "
        << left().rref_forks << " forks, " << left().calls_in_flight << " calls";
  }
}

TEST_P(operator_references, are_of_the_type_asked_for) {
  auto nodes = start({"a", "b"});
  for (const char* to : {"b", "a"}) {
    const auto& from = nodes[0];
    const auto x = at::ones({3}), row = at::tensor({3.0, 1.0, 2.0});
    const rref<at::Tensor> sum = from.remote<at::Tensor>(to, "aten::add", x, 1);
    EXPECT_EQ(sum.owner_name(), to);
    EXPECT_TRUE(at::equal(sum.to_here(), at::full({3}, 2.0f)));
    EXPECT_TRUE(at::equal(from.remote<at::Tensor>(to, std::string("aten::add.Tensor"), x,
                                                  kw("other", x), timeout(time_limit))
                              .to_here(),
                          x + x));
    const auto best =
        from.remote<std::tuple<at::Tensor, at::Tensor>>(to, "aten::topk", row, 2).to_here();
    EXPECT_TRUE(at::equal(std::get<0>(best), at::tensor({3.0, 2.0})));
    EXPECT_TRUE(from.remote<bool>(to, "aten::equal", x, x).to_here());
    EXPECT_EQ(from.remote<std::int64_t>(to, "aten::size", x, 0).to_here(), 3);
    EXPECT_EQ(from.remote<int>(to, "aten::size", x, 0).to_here(), 3);
    EXPECT_EQ(from.remote<double>(to, "aten::item", row[0]).to_here(), 3.0);
    EXPECT_EQ(from.remote<tensors>(to, "aten::chunk", x, 3).to_here().size(), 3u);
    EXPECT_TRUE(from.remote<std::optional<at::Tensor>>(to, "aten::neg", x).to_here());
    const rref<op_result> any = from.remote(to, "aten::neg", x);
    EXPECT_TRUE(at::equal(any.to_here().to<at::Tensor>(), -x));
    // A text is made as before.
    EXPECT_EQ(from.remote<std::string>(to, "aten::neg").to_here(), "aten::neg");
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(operator_references, stand_for_values_in_calls) {
  auto nodes = start({"a", "b", "c"});
  {
    const auto& from = nodes[0];
    const auto x = from.remote<at::Tensor>("b", "aten::ones", ints{2, 2});
    EXPECT_EQ(x.rpc_sync<&sum_of>(), 4);
    EXPECT_EQ(sum_of(x.rpc_async<&twice>().get()), 8);
    const auto doubled = x.remote<&twice>();
    for (const char* to : {"a", "b", "c"}) {
      EXPECT_EQ(from.rpc_sync<&sum_of>(to, x), 4);
      const auto sum = from.remote<at::Tensor>(to, "aten::add", x, doubled, kw("alpha", 2));
      EXPECT_EQ(sum_of(sum.to_here()), 4 + 2 * 8);
      const auto product = from.rpc_sync(to, "aten::matmul", sum, kw("other", x));
      EXPECT_EQ(sum_of(product.to<at::Tensor>()), 2 * 2 * 2 * 5);
      // Numbers and lists too.
      const auto four = from.remote<double>("c", "aten::item", at::full({}, 4.0));
      const auto mine = from.make_rref(2);
      const auto scaled = from.rpc_sync(to, "aten::mul", x, four).to<at::Tensor>();
      EXPECT_EQ(sum_of(scaled), 16);
      EXPECT_EQ(sum_of(from.rpc_sync(to, "aten::mul", scaled, mine).to<at::Tensor>()), 32);
      const auto parts = from.remote<tensors>("b", "aten::unbind", x);
      EXPECT_EQ(from.rpc_sync(to, "aten::cat", parts).to<at::Tensor>().sizes(),
                at::IntArrayRef({4}));
    }
    const auto nothing =
        fault_of<invalid_argument>([&] { from.rpc_sync("b", "aten::neg", rref<at::Tensor>()); });
    EXPECT_EQ(nothing.function, "aten::neg");
    EXPECT_THAT(nothing.text, HasSubstr("an empty rref was passed"));
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(operator_references, on_the_owner_are_the_value_itself) {
  auto nodes = start({"a", "b"});
  {
    const auto& from = nodes[0];
    const auto x = from.remote<at::Tensor>("b", "aten::ones", ints{2, 2});
    const auto where = from.rpc_sync<&address>("b", x);
    const auto row = from.remote<at::Tensor>("b", "aten::view", x, ints{4});
    EXPECT_EQ(from.rpc_sync<&address>("b", row), where);
    EXPECT_EQ(from.rpc_sync<address_function>("b", "references address", x), where);
    EXPECT_NE(from.rpc_sync<address_function>("a", "references address", x), where);
    from.rpc_sync("b", "aten::add_", x, 1);
    EXPECT_EQ(sum_of(row.to_here()), 8);
    from.rpc_sync("a", "aten::add_", x, 1);  // a copy, that a has fetched
    EXPECT_EQ(sum_of(x.to_here()), 8);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(operator_references, to_whatever_comes_become_others) {
  auto nodes = start({"a", "b", "c"});
  {
    const auto& from = nodes[0];
    const auto x = at::tensor({3.0, 1.0, 2.0});
    const auto best = from.remote("b", "aten::topk", x, 2);
    const rref<at::Tensor> values = best.as<at::Tensor>(0), places = best.as<at::Tensor>(1);
    EXPECT_EQ(values.owner_name(), "b");
    EXPECT_TRUE(at::equal(values.to_here(), at::tensor({3.0, 2.0})));
    EXPECT_TRUE(at::equal(from.rpc_sync("c", "aten::neg", places).to<at::Tensor>(),
                          at::tensor({0, -2}, at::kLong)));
    const auto both = best.as<std::tuple<at::Tensor, at::Tensor>>().to_here();
    EXPECT_TRUE(at::equal(std::get<1>(both), at::tensor({0, 2}, at::kLong)));
    // One value stands for itself.
    const auto sum = from.remote("b", "aten::sum", x);
    EXPECT_EQ(sum.as<at::Tensor>().to_here().item<double>(), 6);
    for (const char* to : {"a", "b", "c"}) {
      EXPECT_EQ(from.rpc_sync<&sum_of>(to, sum), 6);
      EXPECT_EQ(from.remote<&twice>(to, sum).to_here().item<double>(), 12);
      EXPECT_EQ(from.rpc_sync(to, "aten::neg", sum).to<at::Tensor>().item<double>(), -6);
    }
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(operator_references, of_another_type_report_what_came) {
  auto nodes = start({"a", "b", "c"});
  {
    const auto& from = nodes[0];
    const auto x = at::tensor({3.0, 1.0, 2.0});
    const auto why_not = [](const auto& use) {
      const auto why = fault_of<invalid_argument>(use);
      return why.function + " on " + why.node + ": " + why.text;
    };
    const auto wrong = from.remote<at::Tensor>("b", "aten::equal", x, x);
    const auto refusal = AllOf(HasSubstr("aten::equal on b: aten::equal has returned (bool): "),
                               HasSubstr("is of type bool, not at::Tensor"));
    EXPECT_THAT(why_not([&] { wrong.to_here(); }), refusal);
    EXPECT_THAT(why_not([&] { from.rpc_sync<&twice>("c", wrong); }), refusal);
    EXPECT_THAT(why_not([&] { from.rpc_sync("c", "aten::neg", wrong); }), refusal);
    EXPECT_THAT(why_not([&] { from.remote<at::Tensor>("b", "aten::topk", x, 2).to_here(); }),
                HasSubstr("aten::topk on b: aten::topk has returned 2 values, (Tensor, Tensor), "
                          "and 1 were asked for"));
    const auto best = from.remote("b", "aten::topk", x, 2);
    EXPECT_THAT(why_not([&] { best.as<double>(0).to_here(); }),
                HasSubstr("aten::topk on b: aten::topk has returned (Tensor, Tensor): a value of "
                          "an operator is of type Tensor, not double"));
    EXPECT_THAT(why_not([&] { best.as<at::Tensor>(2).to_here(); }),
                HasSubstr("aten::topk on b: aten::topk has returned 2 values, (Tensor, Tensor), "
                          "and none at place 2"));
    EXPECT_THAT(why_not([&] { from.rpc_sync<&twice>("c", best); }),
                HasSubstr("aten::topk on c: aten::topk has returned 2 values"));
    // Here too.
    EXPECT_THAT(fault_of<invalid_argument>([&] {
                  from.rpc_sync("b", "aten::equal", x, x).to<at::Tensor>();
                }).text,
                HasSubstr("aten::equal has returned (bool): "));
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(operator_references, wait_for_futures) {
  auto nodes = start({"a", "b"});
  {
    const auto& from = nodes[0];
    promise<at::Tensor> mine;
    const auto later = from.remote<at::Tensor>("b", "aten::neg", mine.get_future());
    const auto after = from.rpc_async("b", "aten::add", later, kw("other", mine.get_future()));
    EXPECT_FALSE(after.ready());
    mine.set_value(at::ones({2}));
    EXPECT_TRUE(at::equal(later.to_here(), -at::ones({2})));
    EXPECT_TRUE(at::equal(after.get().to<at::Tensor>(), at::zeros({2})));
    // A future of an rref.
    const auto there = from.rpc_async<&ones_here>("b", 3);
    EXPECT_EQ(sum_of(from.remote<at::Tensor>("a", "aten::neg", there).to_here()), -3);
    EXPECT_EQ(sum_of(from.rpc_sync("b", "aten::neg", there).to<at::Tensor>()), -3);
    promise<at::Tensor> broken;
    const auto never = from.remote<at::Tensor>("b", "aten::abs", broken.get_future());
    broken.set_exception(std::make_exception_ptr(std::out_of_range("there is none")));
    ASSERT_TRUE(eventually([&] { return never.core()->ready(); }));
    const auto why = fault_of<remote_error>([&] { never.to_here(); });
    EXPECT_EQ(why.type, "std::out_of_range");
    EXPECT_EQ(why.function, "aten::abs");
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(operator_references, are_waited_for_without_a_thread) {
  rpc_options options;
  options.max_threads = 1;
  auto nodes = start({"a", "b", "c"}, options);
  {
    const shared_door door;
    const auto& from = nodes[0];
    const auto slow = from.remote<&ones_behind_door>("c");
    ASSERT_TRUE(door->wait_for(1));
    std::vector<future<op_result>> all;
    for (int i = 0; i < 8; ++i) all.push_back(from.rpc_async("b", "aten::mul", slow, i));
    const auto last = from.rpc_async<times_function>("b", "references times", slow, 8.0);
    // What b has but one thread for.
    EXPECT_EQ(from.rpc_sync<&sum_of>("b", at::ones({5}), timeout(time_limit)), 5);
    for (const auto& one : all) EXPECT_FALSE(one.ready());
    door->open();
    for (int i = 0; i < 8; ++i) EXPECT_EQ(sum_of(all[i].get().to<at::Tensor>()), 2 * i);
    EXPECT_EQ(sum_of(last.get()), 16);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(operator_references, are_named_by_the_operator_when_they_fail) {
  const log_lines lines;
  auto nodes = start({"a", "b"});
  {
    const auto& from = nodes[0];
    const auto bad =
        from.remote<at::Tensor>("b", "aten::matmul", at::ones({2, 3}), at::ones({2, 3}));
    ASSERT_TRUE(eventually([&] { return bad.core()->ready(); }));
    auto why = fault_of<remote_error>([&] { bad.to_here(); });
    EXPECT_EQ(why.type, "c10::Error");
    EXPECT_EQ(why.function, "aten::matmul");
    EXPECT_EQ(why.node, "b");
    EXPECT_EQ(lines.with("aten::matmul for a failed: c10::Error"), 1) << lines.text();
    // What no message can hold.
    EXPECT_THROW(from.rpc_sync("b", "aten::empty.memory_format", ints{2}, kw("device", "meta")),
                 encode_error);
    EXPECT_EQ(lines.with("aten::empty.memory_format for a failed"), 1) << lines.text();
    why = fault_of<unknown_function>([&] { from.remote<at::Tensor>("b", "aten::ad", 1); });
    EXPECT_EQ(why.function, "aten::ad");
    // Of a library that neither has; the reference reports it.
    const auto none = from.remote<at::Tensor>("b", "mine::neg", at::ones({2}));
    why = fault_of<unknown_function>([&] { none.to_here(); });
    EXPECT_EQ(why.function, "mine::neg");
    EXPECT_EQ(why.node, "b");
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST(operator_reference_names, stand_in_timeouts_and_losses) {
  rpc_options options;
  options.max_threads = 1;
  std::vector<node> nodes;
  const shared_door door;
  nodes = local_nodes({"a", "b"}, options);
  const auto busy = nodes[0].rpc_async<&ones_behind_door>("b");  // takes the only thread
  ASSERT_TRUE(door->wait_for(1));
  const auto late = nodes[0].remote<at::Tensor>("b", "aten::neg", at::ones({2}), timeout(1ms));
  ASSERT_TRUE(eventually([&] { return late.core()->ready(); }));
  const auto why = fault_of<rpc_timeout>([&] { late.to_here(); });
  EXPECT_EQ(why.function, "aten::neg");
  EXPECT_EQ(why.node, "b");
  const auto waiting = nodes[0].remote<at::Tensor>("b", "aten::abs", at::ones({2}));
  door->open();
  busy.get();
  EXPECT_TRUE(at::equal(waiting.to_here(), at::ones({2})));
  nodes[1].shutdown(false);
  const auto lost = nodes[0].remote("b", "aten::neg", at::ones({2}));
  ASSERT_TRUE(eventually([&] { return lost.core()->ready(); }));
  const auto gone = fault_of<peer_lost>([&] { lost.to_here(); });
  EXPECT_EQ(gone.function, "aten::neg");
  EXPECT_EQ(gone.node, "b");
  nodes[0].shutdown(false);
}

TEST_P(operator_references, and_operators_that_wait_for_one_another_are_named) {
  rpc_options options;
  options.max_threads = 4;
  options.operators = {"troupe_references_test::bounce"};
  auto nodes = start({"left", "right"}, options);
  const auto& from = nodes[0];
  const char* name = "troupe_references_test::bounce";
  const auto call = from.rpc_async("right", name, 64, "left", timeout(0ms));
  ASSERT_TRUE(call.wait_for(time_limit));
  const auto why = fault_of<deadlock_error>([&] { call.get(); });
  EXPECT_THAT(why.text,
              AllOf(HasSubstr("max_threads is 4"), HasSubstr(name + std::string(" on left")),
                    HasSubstr(name + std::string(" on right"))));
  EXPECT_EQ(why.function, name);
  EXPECT_EQ(from.rpc_sync("right", name, 3, "left").to<int>(), 3);
  shut_down(nodes);
}

TEST_P(operator_references, and_futures_are_taken_by_functions_that_go_by_a_name) {
  auto nodes = start({"a", "b", "c"});
  {
    const auto& from = nodes[0];
    const auto x = from.remote<at::Tensor>("b", "aten::ones", ints{4});
    const auto by = from.remote<double>("c", "aten::item", at::full({}, 3.0));
    promise<double> mine;
    const auto later = mine.get_future();
    std::vector<future<at::Tensor>> waiting;
    std::vector<rref<at::Tensor>> kept;
    for (const char* to : {"a", "b", "c"}) {
      EXPECT_EQ(sum_of(from.rpc_sync<times_function>(to, "references times", x, 2.0)), 8);
      EXPECT_EQ(sum_of(from.rpc_sync<times_function>(to, "references times", at::ones({2}), by)),
                6);
      const auto made = from.remote<times_function>(to, "references times", x, by);
      EXPECT_EQ(made.owner_name(), to);
      EXPECT_EQ(sum_of(made.to_here()), 12);
      waiting.push_back(from.rpc_async<times_function>(to, "references times", made, later));
      kept.push_back(from.remote<times_function>(to, "references times", x, later));
    }
    for (const auto& one : waiting) EXPECT_FALSE(one.ready());
    mine.set_value(0.5);
    for (const auto& one : waiting) EXPECT_EQ(sum_of(one.get()), 6);
    for (const auto& one : kept) EXPECT_EQ(sum_of(one.to_here()), 2);
    const auto why = fault_of<remote_error>(
        [&] { from.rpc_sync<times_function>("b", "references times", x, -1.0); });
    EXPECT_EQ(why.function, "references times");
    EXPECT_EQ(why.type, "std::out_of_range");
    promise<double> never;
    const auto given_up =
        from.rpc_async<times_function>("b", "references times", x, never.get_future());
    given_up.cancel();
    EXPECT_EQ(fault_of<cancelled_error>([&] { given_up.get(); }).function, "references times");
    // The callee has no function of that name.
    EXPECT_THROW(from.rpc_sync<times_function>("b", "no times", x, 1.0), unknown_function);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

// Reads a call with so many arguments, the last of them with a name.
void read_loans(std::uint32_t arguments, const std::vector<detail::op_loan>& loans) {
  encoder out(nullptr, nullptr);
  out.put(std::string("aten::neg"));
  out.put(std::vector<op_value>(arguments - 1));
  out.put(std::vector<std::pair<std::string, op_value>>(1));
  out.put(loans);
  decoder in(out.bytes(), nullptr, nullptr);
  detail::skip_operator(in, false);
}

TEST(operator_calls, that_lend_a_value_for_no_argument_or_of_no_type_are_refused) {
  read_loans(2, {{0, 0, {}}});
  read_loans(2, {{1, detail::lent_place<double>, {}}});
  EXPECT_THROW(read_loans(2, {{2, 0, {}}}), decode_error);
  EXPECT_THROW(read_loans(2, {{0, 200, {}}}), decode_error);
}

TEST(operator_calls, that_would_have_the_callee_ask_for_more_than_its_arguments_are_refused) {
  read_loans(2, {{0, 0, {}}, {1, 0, {}}});
  EXPECT_THROW(read_loans(2, {{0, 0, {}}, {0, 0, {}}}), decode_error);
  EXPECT_THROW(read_loans(2, {{1, 0, {}}, {0, 0, {}}}), decode_error);
  std::vector<detail::op_loan> many;
  for (std::uint32_t place = 0; place < 256; ++place) many.push_back({place, 0, {}});
  read_loans(300, many);
  many.push_back({256, 0, {}});
  EXPECT_THROW(read_loans(300, many), decode_error);
}

}  // namespace
}  // namespace troupe::test
