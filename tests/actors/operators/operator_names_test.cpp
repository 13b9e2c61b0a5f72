// The name of an operator, which its call alone has: who still refers to it when the call is over.
#include <ATen/ops/ones.h>
#include <torch/library.h>

#include "tests/actors/node/job.hpp"

namespace troupe::test {
namespace {

class operator_names : public on_networks {};
TROUPE_ON_NETWORKS(operator_names);

std::string name_of_call() {
  const auto call = current_call();
  return call ? call->function : "no call";
}

// A coroutine that an operator begins, and that goes on when the call has been answered.
struct long_coroutine {
  promise<int> answered;
  std::optional<task<std::vector<std::string>>> names;
};
long_coroutine* begun = nullptr;

task<std::vector<std::string>> names_before_and_after(future<int> answered) {
  std::vector<std::string> names{name_of_call()};
  co_await answered;
  names.push_back(name_of_call());
  co_return names;
}
std::int64_t begin(std::int64_t x) {
  begun->names = names_before_and_after(begun->answered.get_future());
  return x;
}
TORCH_LIBRARY(troupe_names_test, library) { library.def("begin_and_go_on", begin); }

TEST_P(operator_names, are_known_to_coroutines_that_outlive_the_call) {
  rpc_options options;
  options.operators = {"troupe_names_test::*"};
  auto nodes = start({"a", "b"}, options);
  const std::string name = "troupe_names_test::begin_and_go_on";
  long_coroutine one;
  begun = &one;
  EXPECT_EQ(nodes[0].rpc_sync("b", name, 7).to<int>(), 7);
  one.answered.set_value(1);
  EXPECT_THAT(one.names->result().get_for(time_limit), testing::ElementsAre(name, name));
  begun = nullptr;
  shut_down(nodes);
}

// What it would have reported then is gone: the sanitizers look.
TEST_P(operator_names, are_not_looked_at_when_what_has_ended_is_cancelled) {
  auto nodes = start({"a", "b"});
  const auto x = at::ones({2});
  const auto done = nodes[0].rpc_async("b", "aten::add.Tensor", x, x);
  const auto failed = nodes[0].rpc_async("b", "aten::matmul", x, at::ones({3}));
  EXPECT_EQ(done.get().to<at::Tensor>().numel(), 2);
  EXPECT_THROW(failed.get(), remote_error);
  done.cancel();
  failed.cancel();
  EXPECT_EQ(done.get().size(), 1u);
  EXPECT_EQ(fault_of<remote_error>([&] { failed.get(); }).function, "aten::matmul");
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
