// Arguments that a call leaves out, and arguments by name: what of them is made where.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <map>

#include "tests/actors/node/job.hpp"

namespace troupe::test {

/// Arguments by name, with defaults of the caller's program.
struct train_options {
  double rate = 0.5;
  int rounds = 10;
  std::string note = "none";
  std::map<std::string, at::Tensor> masks = {};
};
TROUPE_MESSAGE(train_options, rate, rounds, note, masks)

struct corpus {
  std::vector<at::Tensor> batches;
  std::map<std::string, at::Tensor> named;
  rref<at::Tensor> shared;
  train_options how;
  std::vector<std::vector<rref<at::Tensor>>> more;
};
TROUPE_MESSAGE(corpus, batches, named, shared, how, more)

namespace {

class defaults : public on_networks {};
TROUPE_ON_NETWORKS(defaults);

std::string describe(int first, int second, const std::string& third) {
  return std::to_string(first) + " " + std::to_string(second) + " " + third;
}
std::string note_of_here() { return "a default that was made on " + this_node().name(); }

int by_value(int x) { return x; }
int all_left_out(int x) { return x; }

task<std::string> waits(int x, const std::string& text) {
  co_await sleep_for(5ms);
  co_return std::to_string(x) + " " + text;
}

const std::string& same(const std::string& text) { return text; }

struct counter_of_calls {
  int add(int x, int y) { return sum += x * y; }
  int sum = 0;
};
int add_to(counter_of_calls& counter, int x, int y) { return counter.add(x, y); }

int overloaded(int x) { return x + 1; }
[[maybe_unused]] int overloaded(double) { return -1; }

double rate_in(const train_options& how, int factor) { return how.rate * factor; }
corpus returned(corpus all) {
  all.how.note = this_node().name() + " has " + std::to_string(all.batches.size());
  all.shared = this_node().make_rref(all.shared.to_here() * 2);
  return all;
}

}  // namespace
}  // namespace troupe::test

TROUPE_DEFAULTS(&troupe::test::describe, 7, troupe::test::note_of_here())
TROUPE_DEFAULTS(&troupe::test::all_left_out, 7)
TROUPE_DEFAULTS(&troupe::test::waits, "a default that is longer than what a string keeps in itself")
TROUPE_DEFAULTS(&troupe::test::same, "a default that is longer than what a string keeps in itself")
TROUPE_DEFAULTS(&troupe::test::counter_of_calls::add, 10)
TROUPE_DEFAULTS(&troupe::test::add_to, 10)
TROUPE_DEFAULTS(&troupe::test::rate_in, troupe::test::train_options{.rate = 0.25}, 2)
TROUPE_IDEMPOTENT(&troupe::test::describe)

namespace troupe::test {
namespace {

TROUPE_FUNCTION(describe)
TROUPE_FUNCTION_AS("describe under another name", describe)
TROUPE_FUNCTION_AS("overloaded", static_cast<int (*)(int)>(overloaded))

TEST_P(defaults, are_the_callees_and_made_there) {
  auto nodes = start({"a", "b"});
  const auto& a = nodes[0];
  const std::string of_b = "a default that was made on b";
  EXPECT_EQ(a.rpc_sync<&describe>("b", 1, 2, "3"), "1 2 3");
  EXPECT_EQ(a.rpc_sync<&describe>("b", 1, 2), "1 2 " + of_b);
  EXPECT_EQ(a.rpc_sync<&describe>("b", 1), "1 7 " + of_b);
  EXPECT_EQ(a.rpc_sync<&describe>("a", 1), "1 7 a default that was made on a");
  EXPECT_EQ(a.rpc_sync<&all_left_out>("b"), 7);
  EXPECT_EQ(a.rpc_sync<&describe>("b", 1, timeout(time_limit)), "1 7 " + of_b);
  EXPECT_EQ(a.rpc_sync<&describe>("b", 1, retry(2)), "1 7 " + of_b);
  EXPECT_EQ(a.rpc_async<&describe>("b", a.rpc_async<&by_value>("b", 5)).get(), "5 7 " + of_b);
  shut_down(nodes);
}

TEST_P(defaults, are_for_results_that_stay_as_well) {
  auto nodes = start({"a", "b"});
  const auto& a = nodes[0];
  const std::string of_b = "a default that was made on b";
  {
    EXPECT_EQ(a.remote<&describe>("b", 1).to_here(), "1 7 " + of_b);
    EXPECT_EQ(a.remote<&describe>("b", 1, 2).to_here(), "1 2 " + of_b);
    const auto lent = a.make_rref(4);
    EXPECT_EQ(a.rpc_sync<&describe>("b", lent), "4 7 " + of_b);
    EXPECT_EQ(a.remote<&describe>("b", lent, lent).to_here(), "4 4 " + of_b);
  }
  shut_down(nodes);
}

TEST_P(defaults, last_until_a_coroutine_has_an_answer) {
  auto nodes = start({"a", "b"});
  const std::string text = "a default that is longer than what a string keeps in itself";
  EXPECT_EQ(nodes[0].rpc_sync<&waits>("b", 1), "1 " + text);
  EXPECT_EQ(nodes[0].remote<&waits>("b", 1).to_here(), "1 " + text);
  EXPECT_EQ(nodes[0].rpc_sync<&same>("b"), text);
  shut_down(nodes);
}

TEST_P(defaults, are_for_functions_on_rrefs_too) {
  auto nodes = start({"a", "b"});
  {
    const auto counter = nodes[0].remote<counter_of_calls>("b");
    EXPECT_EQ(counter.rpc_sync<&counter_of_calls::add>(2), 20);
    EXPECT_EQ(counter.rpc_sync<&counter_of_calls::add>(2, 1), 22);
    EXPECT_EQ(counter.remote<&counter_of_calls::add>(1).to_here(), 32);
    EXPECT_EQ(counter.rpc_sync<&add_to>(1), 42);
  }
  shut_down(nodes);
}

TEST_P(defaults, are_known_to_callers_that_know_the_name_alone) {
  auto nodes = start({"a", "b"});
  const auto& a = nodes[0];
  const std::string of_b = "a default that was made on b";
  EXPECT_EQ(a.rpc_sync<std::string(int, int, std::string)>("b", "describe", 1, 2, "3"), "1 2 3");
  EXPECT_EQ((a.rpc_sync<std::string(int, int)>("b", "describe", 1, 2)), "1 2 " + of_b);
  EXPECT_EQ(a.rpc_sync<std::string(int)>("b", "describe", 1), "1 7 " + of_b);
  EXPECT_EQ(a.remote<std::string(int)>("b", "describe", 1).to_here(), "1 7 " + of_b);
  {
    const auto lent = a.make_rref(4);
    EXPECT_EQ(a.rpc_sync<std::string(int)>("b", "describe", lent), "4 7 " + of_b);
    EXPECT_EQ((a.remote<std::string(int, int)>("b", "describe", 1, lent).to_here()), "1 4 " + of_b);
  }
  EXPECT_EQ(a.rpc_sync<std::string(int)>("b", "describe", a.rpc_async<&by_value>("b", 5)),
            "5 7 " + of_b);
  EXPECT_THROW(a.rpc_sync<std::string()>("b", "describe"), unknown_function);
  shut_down(nodes);
}

TEST_P(defaults, and_functions_have_as_many_names_as_they_are_given) {
  auto nodes = start({"a", "b"});
  const auto& a = nodes[0];
  EXPECT_EQ(a.rpc_sync<std::string(int)>("b", "describe under another name", 1),
            "1 7 a default that was made on b");
  EXPECT_EQ(a.rpc_sync<int(int)>("b", "overloaded", 1), 2);
  EXPECT_THROW(a.rpc_sync<int(double)>("b", "overloaded", 1), unknown_function);
  shut_down(nodes);
}

TEST_P(defaults, of_arguments_by_name_are_members_of_a_struct) {
  auto nodes = start({"a", "b"});
  const auto& a = nodes[0];
  EXPECT_EQ(a.rpc_sync<&rate_in>("b", train_options{.rounds = 3}, 1), 0.5);
  EXPECT_EQ(a.rpc_sync<&rate_in>("b", train_options{.rate = 2}), 4);
  EXPECT_EQ(a.rpc_sync<&rate_in>("b"), 0.5) << "the callee's options and factor";
  shut_down(nodes);
}

TEST_P(defaults, and_structs_of_tensors_and_rrefs_come_back_whole) {
  auto nodes = start({"a", "b"});
  const auto& a = nodes[0];
  {
    corpus sent;
    sent.batches = {at::ones({2, 3}), at::full({4}, 2)};
    sent.named = {{"left", at::full({2}, 3)}, {"right", at::full({1, 2}, 4)}};
    sent.shared = a.make_rref(at::full({3}, 5));
    sent.how = {.rate = 0.125, .masks = {{"all", at::ones({5})}}};
    sent.more = {{}, {sent.shared, a.make_rref(at::full({2}, 6))}};
    const auto back = a.rpc_sync<&returned>("b", sent);
    ASSERT_EQ(back.batches.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(at::equal(back.batches[i], sent.batches[i])) << i;
    ASSERT_EQ(back.named.size(), 2u);
    for (const auto& [name, tensor] : sent.named)
      EXPECT_TRUE(at::equal(back.named.at(name), tensor)) << name;
    EXPECT_EQ(back.how.rate, 0.125);
    EXPECT_EQ(back.how.rounds, 10);
    EXPECT_EQ(back.how.note, "b has 2");
    EXPECT_TRUE(at::equal(back.how.masks.at("all"), at::ones({5})));
    EXPECT_EQ(back.shared.owner_name(), "b");
    EXPECT_TRUE(at::equal(back.shared.to_here(), at::full({3}, 10)));
    ASSERT_EQ(back.more.size(), 2u);
    ASSERT_EQ(back.more[1].size(), 2u);
    EXPECT_EQ(back.more[1][0], sent.shared);
    EXPECT_TRUE(at::equal(back.more[1][1].local_value(), at::full({2}, 6)));
  }
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
