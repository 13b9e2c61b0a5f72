// troupe trace: who is out of step, by dumps of groups that run, that disagree, and that are none.
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/actors/groups/group_testing.hpp"
#include "troupe/apps/trace/report.hpp"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using trace::compare;
using trace::comparison;
using trace::read_dump;
using trace::read_dumps;

// What the ranks of a group leave that do `body(group, rank)` and then write their traces.
comparison traced(int ranks, const std::function<void(const process_group&, int)>& body) {
  const temporary_folder folder;
  local_group all(ranks);
  all.run([&](const process_group& group, int rank) {
    body(group, rank);
    group.write_trace(folder.path().string());
  });
  auto found = compare(read_dumps({folder.path().string()}));
  EXPECT_THAT(found, SizeIs(1));
  return found.at(0);
}

TEST(trace_tool, finds_ranks_in_step) {
  const auto found = traced(3, [](const process_group& group, int) {
    all_reduce(group, at::ones({5}));
    monitored_barrier(group);  // which has a number of its own
    broadcast(group, at::ones({7}), 1);
    barrier(group);
  });
  EXPECT_TRUE(found.in_step());
  EXPECT_EQ(found.completed_by_all, 3u);
  EXPECT_THAT(found.waits, IsEmpty());
  EXPECT_THAT(trace::to_text({found}), HasSubstr("of 3 ranks: in step"));
  EXPECT_THAT(trace::to_text({found}), HasSubstr("rank 2 (w2): asked for 3, completed 3\n"));
}

TEST(trace_tool, names_who_asked_for_what) {
  const auto found = traced(3, [](const process_group& group, int rank) {
    all_reduce(group, at::ones({5}));
    EXPECT_THROW(all_reduce(group, at::ones({rank == 1 ? 6 : 5}),
                            rank == 1 ? reduce_op::max : reduce_op::sum),
                 collective_mismatch);
  });
  EXPECT_FALSE(found.in_step());
  EXPECT_EQ(found.completed_by_all, 1u);
  ASSERT_THAT(found.mismatches, SizeIs(1));
  EXPECT_EQ(found.mismatches[0].sequence, 2u);
  ASSERT_THAT(found.mismatches[0].requests, SizeIs(2));
  const auto text = trace::to_text({found});
  EXPECT_THAT(text, HasSubstr("OUT OF STEP"));
  EXPECT_THAT(text, ContainsRegex("ranks 0, 2: all_reduce\\(Float, 5 elements, .*[sS]"));
  EXPECT_THAT(text, ContainsRegex("rank 1: all_reduce\\(Float, 6 elements, .*[mM]"));
  EXPECT_THAT(text, HasSubstr("rank 0 has failed: "));
}

TEST(trace_tool, names_who_waits_for_whom) {
  const auto found = traced(3, [](const process_group& group, int rank) {
    barrier(group);
    if (rank == 2) return;  // goes elsewhere
    group.set_timeout(300ms);
    EXPECT_THROW(all_reduce(group, at::ones({5})), error);
  });
  EXPECT_FALSE(found.in_step());
  EXPECT_THAT(found.mismatches, IsEmpty());
  ASSERT_THAT(found.waits, SizeIs(2));
  EXPECT_EQ(found.waits[0].rank, 0u);
  EXPECT_THAT(found.waits[0].on, ElementsAre(2));
  EXPECT_THAT(trace::to_text({found}), ContainsRegex("rank 1 waits in 2 all_reduce.* for rank 2"));
}

TEST(trace_tool, names_who_waits_for_a_message) {
  const temporary_folder folder;
  local_group all(2);
  const auto x = at::ones({1});
  const auto pending = irecv(all.groups[0], x, 1, 5);
  for (const auto& group : all.groups) group.write_trace(folder.path().string());
  const auto found = compare(read_dumps({folder.path().string()})).at(0);
  ASSERT_THAT(found.waits, SizeIs(1));
  EXPECT_EQ(found.waits[0].in, "recv with tag 5");
  EXPECT_THAT(found.waits[0].on, ElementsAre(1));
  EXPECT_TRUE(found.in_step());  // of collectives
  send(all.groups[1], x, 0, 5);
  pending.wait();
}

TEST(trace_tool, names_ranks_without_a_trace) {
  const temporary_folder folder;
  local_group all(3);
  all.run([&](const process_group& group, int rank) {
    barrier(group);
    if (rank != 1) group.write_trace(folder.path().string());
  });
  const auto found = compare(read_dumps({folder.path().string()})).at(0);
  EXPECT_FALSE(found.in_step());
  ASSERT_THAT(found.missing, SizeIs(1));
  EXPECT_THAT(trace::to_text({found}), HasSubstr("rank 1 (w1): no trace"));
}

nlohmann::json dump_of(int rank) {
  nlohmann::json out = {{"version", 1},
                        {"group", "g"},
                        {"description", ""},
                        {"rank", rank},
                        {"failure", ""},
                        {"last_sequence", 4},
                        {"last_completed", 4},
                        {"operations", nlohmann::json::array()},
                        {"members", nlohmann::json::array()}};
  for (int i = 0; i < 2; ++i)
    out["members"].push_back({{"rank", i}, {"node", i}, {"name", "w" + std::to_string(i)}});
  for (int i = 1; i <= 4; ++i)
    out["operations"].push_back({{"id", i},
                                 {"kind", "barrier"},
                                 {"state", "completed"},
                                 {"sequence", i},
                                 {"dtype", "Undefined"},
                                 {"inputs", 0},
                                 {"outputs", 0},
                                 {"scheduled_ns", i * 1000},
                                 {"started_ns", i * 1'000'000'000LL + rank * 50'000'000},
                                 {"ended_ns", 1}});
  return out;
}

TEST(trace_tool, names_stragglers) {
  const auto found =
      compare({read_dump(dump_of(0).dump(), "a"), read_dump(dump_of(1).dump(), "b")});
  ASSERT_THAT(found.at(0).stragglers, SizeIs(1));
  EXPECT_EQ(found[0].stragglers[0].rank, 1u);
  EXPECT_NEAR(found[0].stragglers[0].late_ms, 50, 1e-6);
  EXPECT_THAT(trace::to_text(found),
              HasSubstr("rank 1 came 50 ms late on average, as the last to 4 of 4"));
  EXPECT_EQ(nlohmann::json::parse(trace::to_json(found))["groups"][0]["stragglers"][0]["last"], 4);
}

// Each one is named with its file, and nothing is taken on trust.
TEST(trace_tool, refuses_what_is_no_trace) {
  const auto refused = [](const std::string& text) {
    return thrown_text<invalid_argument>([&] { read_dump(text, "bad.json"); });
  };
  const auto good = dump_of(0);
  EXPECT_THAT(refused(good.dump()), IsEmpty());
  EXPECT_THAT(refused(""), HasSubstr("bad.json is no trace of a group: it is no JSON"));
  const auto whole = good.dump(1);
  for (std::size_t length = 1; length < whole.size(); length += 7)
    EXPECT_THAT(refused(whole.substr(0, length)), HasSubstr("not all of it")) << length;
  EXPECT_THAT(refused(std::string(200'000, '[')), HasSubstr("no JSON"));
  EXPECT_THAT(refused("[]"), HasSubstr("no object"));
  for (const auto& [name, value] : good.items()) {
    auto less = good;
    less.erase(name);
    EXPECT_THAT(refused(less.dump()), HasSubstr("'" + name + "'"));
    auto other = good;
    other[name] = name == "version" ? nlohmann::json(2) : nlohmann::json(-1.5);
    EXPECT_THAT(refused(other.dump()), HasSubstr("bad.json")) << name;
  }
  for (const auto& [name, value] : good["operations"][0].items()) {
    auto other = good;
    other["operations"][0][name] = nlohmann::json::object();
    if (name == "id" || name == "scheduled_ns") continue;  // not used
    EXPECT_THAT(refused(other.dump()), HasSubstr("'" + name + "'"));
  }
  auto other = good;
  other["rank"] = 2;
  EXPECT_THAT(refused(other.dump()), HasSubstr("no member"));
  other["rank"] = std::uint64_t{1} << 40;
  EXPECT_THAT(refused(other.dump()), HasSubstr("'rank'"));
}

TEST(trace_tool, prints_no_control_characters) {
  auto evil = dump_of(0);
  evil["group"] = "\x1b[2J";
  evil["failure"] = "a\nb";
  const auto text = trace::to_text(compare({read_dump(evil.dump(), "a")}));
  EXPECT_THAT(text, testing::Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("a b"));
  evil["failure"] = "a\u009b2Jb";  // another way to begin such a command
  EXPECT_THAT(trace::to_text(compare({read_dump(evil.dump(), "a")})), HasSubstr("a  2Jb"));
}

// As of errors at debug level detail, which have the stacks of all ranks.
TEST(trace_tool, cuts_long_texts) {
  auto long_one = dump_of(0);
  std::string text = "a";
  for (int i = 0; i < 3000; ++i) text += "\u00e9";
  long_one["failure"] = text;
  const auto read = read_dump(long_one.dump(), "a");
  EXPECT_EQ(read.failure, text.substr(0, 1999) + "...");
}

// A rank that has only sent since its last collective keeps none of them in its trace.
TEST(trace_tool, knows_collectives_that_are_too_old_to_be_kept) {
  auto sender = dump_of(1);
  sender["operations"] = nlohmann::json::array();
  const auto found = compare({read_dump(dump_of(0).dump(), "a"), read_dump(sender.dump(), "b")});
  EXPECT_TRUE(found.at(0).in_step());
  EXPECT_EQ(found[0].completed_by_all, 4U);
  EXPECT_THAT(found[0].waits, IsEmpty());
}

TEST(trace_tool, refuses_two_runs_at_once) {
  const temporary_folder folder;
  const auto write = [&](const std::string& name, const nlohmann::json& what) {
    std::ofstream(folder.path() / name) << what.dump();
  };
  EXPECT_THAT(thrown_text<invalid_argument>([&] { read_dumps({folder.path().string()}); }),
              HasSubstr("TROUPE_TRACE_DIR"));
  EXPECT_THAT(thrown_text<invalid_argument>([&] { read_dumps({"/nowhere/x.json"}); }),
              HasSubstr("/nowhere/x.json cannot be read"));
  write("a.json", dump_of(0));
  write("b.json", dump_of(0));
  EXPECT_THAT(thrown_text<invalid_argument>([&] { read_dumps({folder.path().string()}); }),
              HasSubstr("both of rank 0"));
  auto other = dump_of(1);
  other["members"][0]["name"] = "someone";
  EXPECT_THAT(thrown_text<invalid_argument>([&] {
                compare({read_dump(dump_of(0).dump(), "a"), read_dump(other.dump(), "b")});
              }),
              HasSubstr("other members"));
}

// As a person calls it.
TEST(trace_tool, is_a_program) {
  const temporary_folder folder;
  const auto run = [&](const std::string& arguments) {
    const auto command = std::string(TROUPE_APPS_DIR) + "/troupe trace " + arguments + " >" +
                         (folder.path() / "out").string() + " 2>&1";
    return WEXITSTATUS(std::system(command.c_str()));
  };
  const auto printed = [&] {
    std::ifstream in(folder.path() / "out");
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const auto here = folder.path().string();
  EXPECT_EQ(run(here), 2);
  EXPECT_THAT(printed(), HasSubstr("troupe: there is no trace"));
  std::ofstream(folder.path() / "r0.json") << dump_of(0).dump();
  EXPECT_EQ(run(here), 1);
  EXPECT_THAT(printed(), HasSubstr("no trace"));
  std::ofstream(folder.path() / "r1.json") << dump_of(1).dump();
  EXPECT_EQ(run(here), 0);
  EXPECT_EQ(run("--json " + here), 0);
  EXPECT_EQ(nlohmann::json::parse(printed())["in_step"], true);
  EXPECT_EQ(run(""), 2);
}

}  // namespace
}  // namespace troupe::test
