// Which of all the operators that libtorch has other nodes may call, and which the program must
// allow first.
#include "troupe/actors/operators/permission.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <fstream>
#include <regex>
#include <set>

#include "tests/actors/node/job.hpp"
#include "troupe/actors/operators/operator_call.hpp"

namespace troupe::test {
namespace {

using detail::operator_permission;
using testing::HasSubstr;
using texts = std::vector<std::string>;

std::int64_t steps_taken = 0;
std::int64_t step() { return ++steps_taken; }
TORCH_LIBRARY(troupe_permission_test, library) { library.def("step", step); }

std::vector<c10::FunctionSchema> all_schemas() {
  std::vector<c10::FunctionSchema> all;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames())
    if (const auto op = c10::Dispatcher::singleton().findSchema(name)) all.push_back(op->schema());
  return all;
}

std::string name_of(const c10::FunctionSchema& schema) { return toString(schema.operator_name()); }

bool is_of_aten(const c10::FunctionSchema& schema) { return schema.name().starts_with("aten::"); }

const c10::FunctionSchema& schema_of(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).schema();
}

TEST(operator_permission, refuses_every_operator_that_takes_a_file) {
  const operator_permission by_default;
  const std::regex file("file|path|folder|dir|url|lib|module|code|command", std::regex::icase);
  std::set<std::string> refused;
  for (const auto& schema : all_schemas())
    for (const auto& argument : schema.arguments()) {
      const bool text = argument.real_type()->str().find("str") != std::string::npos;
      if (!text || !std::regex_search(argument.name(), file)) continue;
      EXPECT_NE(by_default.refusal(schema), "") << schema;
      refused.insert(name_of(schema));
    }
  EXPECT_TRUE(refused.contains("aten::from_file"));
  EXPECT_TRUE(refused.contains("aten::from_file.out"));
}

TEST(operator_permission, is_closed_for_all_but_libtorchs_computations) {
  const operator_permission by_default;
  std::set<std::string> refused;
  std::size_t allowed = 0;
  for (const auto& schema : all_schemas()) {
    const auto why = by_default.refusal(schema);
    if (!is_of_aten(schema)) {
      EXPECT_NE(why, "") << schema;
    } else if (why.empty()) {
      ++allowed;
    } else {
      refused.insert(name_of(schema));
    }
  }
  EXPECT_GT(allowed, 3'000u);
  // All of aten that is refused: look at what a new libtorch adds.
  EXPECT_EQ(refused,
            (std::set<std::string>{"aten::from_file", "aten::from_file.out", "aten::_print",
                                   "aten::_test_string_default", "aten::_test_ambiguous_defaults.b",
                                   // Of objects, which do not travel.
                                   "aten::quantized_gru.data", "aten::quantized_gru.input",
                                   "aten::quantized_lstm.data", "aten::quantized_lstm.input"}));
}

TEST(operator_permission, is_given_by_name_by_overload_and_by_library) {
  const auto& plain = schema_of("aten::from_file", "");
  const auto& out = schema_of("aten::from_file", "out");
  const auto& step = schema_of("troupe_permission_test::step", "");
  EXPECT_EQ(operator_permission(texts{"aten::from_file"}).refusal(plain), "");
  EXPECT_EQ(operator_permission(texts{"aten::from_file"}).refusal(out), "");
  EXPECT_EQ(operator_permission(texts{"aten::from_file.out"}).refusal(out), "");
  EXPECT_NE(operator_permission(texts{"aten::from_file.out"}).refusal(plain), "");
  EXPECT_NE(operator_permission(texts{"aten::from"}).refusal(plain), "");
  EXPECT_EQ(operator_permission(texts{"troupe_permission_test::*"}).refusal(step), "");
  EXPECT_NE(operator_permission(texts{"troupe_permission::*"}).refusal(step), "");
  for (const char* bad : {"", "*", "*::*", "::*", "aten", "aten::", "aten::x::*", "aten::*.out"})
    EXPECT_THAT(fault_of<invalid_argument>([&] { operator_permission{texts{bad}}; }).text,
                HasSubstr("rpc_options::operators has '" + std::string(bad) + "'"))
        << bad;
}

class operators_of_others : public on_networks {};
TROUPE_ON_NETWORKS(operators_of_others);

TEST_P(operators_of_others, read_and_write_no_file_unless_the_job_allows_it) {
  const temporary_folder folder;
  const auto path = (folder.path() / "mine").string();
  std::ofstream(path) << "12345678";
  const auto call = [&](const node& from) {
    return from.rpc_sync("ps", "aten::from_file", path, true, 2, kw("dtype", at::kInt));
  };
  auto nodes = start({"a", "ps"});
  const auto why = fault_of<invalid_argument>([&] { call(nodes[0]); });
  EXPECT_THAT(why.text, HasSubstr("\"aten::from_file\" may not be called by other nodes: its "
                                  "argument \"filename\" may name a file"));
  EXPECT_THAT(why.text, HasSubstr("add \"aten::from_file\" to rpc_options::operators"));
  EXPECT_EQ(why.node, "ps");
  EXPECT_EQ(why.function, "aten::from_file");
  const auto kept = nodes[0].remote("ps", "aten::from_file", path);
  EXPECT_THROW(kept.to_here(), invalid_argument);
  shut_down(nodes);
  rpc_options options;
  options.operators = {"aten::from_file"};
  nodes = start({"a", "ps"}, options);
  EXPECT_EQ(call(nodes[0]).to<at::Tensor>().numel(), 2);
  shut_down(nodes);
}

TEST_P(operators_of_others, of_a_library_are_not_run_unless_the_job_allows_it) {
  auto nodes = start({"a", "ps"});
  const auto before = steps_taken;
  EXPECT_THROW(nodes[0].rpc_sync("ps", "troupe_permission_test::step"), invalid_argument);
  EXPECT_EQ(steps_taken, before);
  shut_down(nodes);
  rpc_options options;
  options.operators = {"troupe_permission_test::step"};
  nodes = start({"a", "ps"}, options);
  EXPECT_EQ(nodes[0].rpc_sync("ps", "troupe_permission_test::step").to<std::int64_t>(), before + 1);
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
