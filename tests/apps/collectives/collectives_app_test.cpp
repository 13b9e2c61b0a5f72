// The program that measures collectives: its formulas, what it compares, its reports, its runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/apps/run/launcher_harness.hpp"
#include "troupe/apps/collectives/record.hpp"

namespace {

using namespace collectives;
using testing::ContainsRegex;
using testing::HasSubstr;

const std::string app = std::string(TROUPE_APPS_DIR) + "/collectives";

run_record two_sizes() {
  run_record run{.asked = {}, .ranks = 4, .sizes = {}};
  run.sizes = {{4, 1, {1e-6, 2e-6, 5e-6}, 0}, {4'000'000, 1'000'000, {0.001, 0.002}, 0}};
  return run;
}

TEST(collectives_app, has_the_bandwidths_of_nccl_tests) {
  EXPECT_DOUBLE_EQ(bus_factor(operation::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(operation::all_reduce, 1), 0);
  EXPECT_DOUBLE_EQ(bus_factor(operation::all_gather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(operation::reduce_scatter, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(operation::all_to_all, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(operation::broadcast, 8), 1);
  const auto run = two_sizes();
  EXPECT_DOUBLE_EQ(run.sizes[1].median(), 0.002);
  EXPECT_DOUBLE_EQ(run.sizes[1].algorithm_bandwidth(), 2e9);
  EXPECT_DOUBLE_EQ(run.sizes[1].bus_bandwidth(operation::all_reduce, 4), 3e9);
  EXPECT_EQ(measurement{}.algorithm_bandwidth(), 0);
}

TEST(collectives_app, reports_each_size) {
  auto run = two_sizes();
  EXPECT_THAT(table_head(run), HasSubstr("all_reduce, 4 ranks"));
  EXPECT_THAT(table_line(run, run.sizes[1]),
              ContainsRegex("4000000 +1000000 +Float +sum +2000.00 +2.00 +3.00 +0$"));
  EXPECT_THAT(table_end(run), testing::Not(HasSubstr("WRONG")));
  const auto document = nlohmann::json::parse(to_json(run));
  EXPECT_EQ(document["sizes"][0]["time_us"], 2);
  EXPECT_EQ(document["sizes"][0]["wrong"], 0);
  const auto picture = to_svg(run);
  for (const char* part : {">bus bandwidth<", ">algorithm bandwidth<", "Bandwidth of all_reduce"})
    EXPECT_THAT(picture, HasSubstr(part));
  EXPECT_TRUE(run.is_right());
  run.sizes[0].wrong = 7;
  EXPECT_FALSE(run.is_right());
  EXPECT_THAT(table_end(run), HasSubstr("WRONG"));
  run.sizes[0].wrong.reset();
  EXPECT_THAT(table_line(run, run.sizes[0]), HasSubstr("N/A"));
  EXPECT_TRUE(nlohmann::json::parse(to_json(run))["sizes"][0]["wrong"].is_null());
}

TEST(collectives_app, measures_every_operation) {
  for (const std::string op : {"all_reduce", "all_gather", "all_to_all", "barrier", "broadcast",
                               "gather", "reduce", "reduce_scatter", "scatter"}) {
    const std::string ranks = op == "all_gather" ? "3" : "2";  // more than cores take longer
    const auto end = troupe::test::run_launcher(
        {"-n", ranks, app, "--op", op, "--max", "64K", "--factor", "128", "--iterations", "3",
         "--warmup", "1", "--check", op == "reduce" ? "--async" : "--check"});
    EXPECT_EQ(end.code, 0) << op << end.out << end.err;
    EXPECT_THAT(end.out, HasSubstr("# " + op + ", " + ranks + " ranks"));
    EXPECT_THAT(end.out, testing::Not(HasSubstr("N/A")));
  }
}

TEST(collectives_app, combines_every_type) {
  const std::vector<std::pair<std::string, std::string>> all{
      {"half", "max"}, {"bfloat16", "product"}, {"int64", "max"}};
  for (const auto& [dtype, by] : all) {
    const auto end = troupe::test::run_launcher({"-n", "2", app, "--dtype", dtype, "--reduction",
                                                 by, "--min", "1000", "--max", "1000",
                                                 "--iterations", "1", "--check", "--async"});
    EXPECT_EQ(end.code, 0) << dtype << by << end.out << end.err;
    EXPECT_THAT(end.out, HasSubstr(", by work handles"));
  }
}

TEST(collectives_app, writes_its_numbers_and_a_picture) {
  std::string folder = "/tmp/troupe-collectives-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto json = folder + "/numbers.json", plot = folder + "/picture.svg";
  const auto end = troupe::test::run_launcher({"-n", "2", app, "--reduction", "avg", "--max", "1K",
                                               "--check", "--json", json, "--plot", plot});
  EXPECT_EQ(end.code, 0) << end.out << end.err;
  const auto document = nlohmann::json::parse(std::ifstream(json));
  EXPECT_EQ(document["ranks"], 2);
  ASSERT_EQ(document["sizes"].size(), 5u);  // 4, 16, 64, 256, 1024
  EXPECT_EQ(document["sizes"][4]["size"], 1024);
  EXPECT_GT(document["sizes"][4]["time_us"], 0);
  std::ifstream picture(plot);
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(picture), {}), HasSubstr("</svg>"));
  std::filesystem::remove_all(folder);
}

TEST(collectives_app, runs_on_one_rank_and_refuses_what_cannot_be) {
  EXPECT_EQ(troupe::test::run_launcher({"-n", "1", app, "--max", "64", "--check"}).code, 0);
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--op", "nonsense"},
                                                {"--min", "8", "--max", "4"},
                                                {"--factor", "1"},
                                                {"--dtype", "complex"}}) {
    auto arguments = wrong;
    arguments.insert(arguments.begin(), {"-n", "1", app});
    EXPECT_EQ(troupe::test::run_launcher(arguments).code, 2) << wrong[1];
  }
}

}  // namespace
