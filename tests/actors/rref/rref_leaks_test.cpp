// Remote references that a program still has when its job ends, and those that go on their own.

#include <sstream>

#include "tests/actors/rref/rref_testing.hpp"

namespace troupe::test {
namespace {

class leaked_rrefs : public on_networks {};
TROUPE_ON_NETWORKS(leaked_rrefs);

// What each node's shutdown reports of references; empty: nothing.
std::vector<std::string> leaks_of(std::vector<node>& nodes) {
  std::vector<std::future<std::string>> ends;
  for (auto& n : nodes)
    ends.push_back(std::async(std::launch::async, [&n] {
      try {
        n.shutdown(true, time_limit);
        return std::string();
      } catch (const leaked_rref_error& e) {
        EXPECT_EQ(e.node(), n.name());
        return e.fault().text;
      }
    }));
  std::vector<std::string> out;
  for (auto& one : ends) out.push_back(one.get());
  return out;
}

rref<int> made_on(const std::string& where) { return this_node().remote<&plus>(where, 1, 2); }

rpc_options strict() {
  rpc_options options;
  options.on_leaked_rref = leaked_rref::fail;
  return options;
}

TEST_P(leaked_rrefs, that_are_left_at_a_shutdown_are_named_by_an_error_if_it_is_asked_for) {
  auto nodes = start({"a", "b", "c"}, strict());
  const auto number = nodes[0].remote<&plus>("b", 1, 2);
  const auto tensor = nodes[0].remote<&ones>("c", 3);
  const auto mine = nodes[0].make_rref(4);  // no other node's
  const auto given = nodes[1].rpc_sync<&made_on>("a", "c");
  EXPECT_EQ(number.to_here(), 3);
  const auto leaks = leaks_of(nodes);
  using testing::AllOf;
  using testing::HasSubstr;
  EXPECT_THAT(
      leaks[0],
      AllOf(HasSubstr("a still has 2 rrefs at the shutdown"),
            HasSubstr("Leaking RRef user_rref<int>(rref_id(created_on=0, owner=1, local_id=1), "
                      "fork_id(created_on=0, local_id=0) on b), held by a, made at "),
            HasSubstr("Leaking RRef user_rref<at::Tensor>(rref_id(created_on=0, owner=2, "
                      "local_id=1), fork_id(created_on=0, local_id=0) on c), held by a, made at "),
            HasSubstr("rref_leaks_test.cpp:")));
  // Which b was given by a, who has had it made.
  EXPECT_THAT(leaks[1],
              AllOf(HasSubstr("b still has 1 rref at the shutdown"),
                    HasSubstr("Leaking RRef user_rref<int>(rref_id(created_on=0, owner=2, "
                              "local_id=2), fork_id("),
                    HasSubstr(" on c), held by b, received")));
  EXPECT_EQ(leaks[2], "");
  EXPECT_THROW(number.to_here(), error);
  EXPECT_THROW(nodes[0].rpc_sync<&plus>("b", 1, 2), not_initialized);  // it has still ended
}

TEST_P(leaked_rrefs, that_are_left_at_a_shutdown_cost_one_line_of_the_log) {
  auto nodes = start({"a", "b"});
  std::vector<rref<int>> left;
  for (int i = 0; i < 5; ++i) left.push_back(nodes[0].remote<&plus>("b", i, 2));
  testing::internal::CaptureStderr();
  const auto leaks = leaks_of(nodes);
  std::istringstream log(testing::internal::GetCapturedStderr());
  EXPECT_EQ(leaks, (std::vector<std::string>{"", ""}));
  int lines = 0;
  for (std::string line; std::getline(log, line);)
    if (line.find("rref") != line.npos) {
      ++lines;
      EXPECT_THAT(line, testing::HasSubstr("a still has 5 rrefs at the shutdown"));
      EXPECT_THAT(line, testing::HasSubstr("and 2 others, which node::rrefs() lists"));
    }
  EXPECT_EQ(lines, 1);
  EXPECT_EQ(nodes[0].rrefs().size(), 5u);
}

// References inside of values, which go with those, and what calls have held.
TEST_P(leaked_rrefs, that_go_on_their_own_as_a_job_ends_are_no_leaks) {
  for (int i = 0; i < 3; ++i) {
    auto nodes = start({"a", "b", "c"}, strict());
    const auto& a = nodes[0];
    std::vector<future<int>> ended;
    {
      const auto inner =
          a.remote<&made_on>("b", "c");  // a value of c, which a value of b refers to
      ended.push_back(inner.to_here().to_here_async());
      const auto number = a.remote<&plus>("b", 1, 2);
      ended.push_back(a.rpc_async<&value_of>("c", number));
      ended.push_back(a.rpc_async<&plus>("c", number, 1));
      ended.push_back(number.rpc_async<&doubled>());
      for (int j = 0; j < 300; ++j) (void)a.remote<&plus>("b", j, 1);
    }
    EXPECT_EQ(leaks_of(nodes), (std::vector<std::string>{"", "", ""}));
    for (const auto& one : ended) EXPECT_GT(one.get(), 2);
  }
}

}  // namespace
}  // namespace troupe::test
