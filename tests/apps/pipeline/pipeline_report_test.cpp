// What `pipeline` reports of a run, and the command line that asks for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "troupe/apps/parameter_server/digits.hpp"
#include "troupe/apps/pipeline/options.hpp"
#include "troupe/apps/pipeline/record.hpp"

namespace {

using namespace pipeline;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(pipeline_record, reports_its_numbers) {
  run_record run{.seed = 7, .parameters = 1000, .batch_size = 64, .stages = {0.5, 0.5}};
  run.tolerance = 1e-5;
  run.ways.push_back(
      {.how = {}, .speeds = {110, 100, 90}, .losses = {2.25F, 0.1F}, .accuracy = 0.5});
  run.ways.push_back({.how = {4, 2}, .speeds = {160, 1620}, .losses = {2.25F, 0.2F}});
  EXPECT_EQ(run.ways[0].speed(), 100);
  EXPECT_EQ(run.ways[1].speed(), 890);
  EXPECT_EQ(run.times_faster(run.ways[1]), 8.9);
  EXPECT_THAT(table(run), ContainsRegex("one process +100  90 to 110 +1.00 +0 +50.0 %"));
  EXPECT_THAT(table(run), ContainsRegex("4 micro-batches, 2 in flight +890  160 to 1,620"));
  EXPECT_EQ(losses_text(run), "2.25 2.25\n0.1 0.2\n");
  EXPECT_THAT(verdict(run), HasSubstr("the losses are those of one process"));
  run.ways[1].difference = 0.1;
  EXPECT_EQ(verdict(run),
            "losses differ from those of one process by up to 1.0e-01, more than 1e-05");
  EXPECT_FALSE(run.is_exact());
  const auto document = nlohmann::json::parse(to_json(run));
  EXPECT_EQ(document["steps"], 2);
  EXPECT_EQ(document["repeats"], 3);
  EXPECT_EQ(document["ways"][1]["times_faster"], 8.9);
  EXPECT_EQ(document["ways"][1]["in_flight"], 2);
}

TEST(pipeline_record, draws_its_curves) {
  run_record run{.stages = {0.5, 0.5}};
  run.ways.push_back({.how = {}, .speeds = {1000}, .losses = {2, 1}});
  run.ways.push_back({.how = {4, 1}, .speeds = {1500}, .losses = {2, 1}});
  run.ways.push_back({.how = {4, 2}, .speeds = {1600}, .losses = {2, 0.5F}});
  const auto svg = to_svg(run);
  for (const char* part : {">one process: 1,000 images/s<", ">4 micro-batches: 1,500 images/s<",
                           "in flight: 1,600 images/s<", ">Step<", ">Loss<", ">2 stages, "})
    EXPECT_THAT(svg, HasSubstr(part));
  // Those that are the same lie on one another, the last on top.
  const auto below = svg.find("stroke-width=\"3.5\" stroke-linejoin");
  const auto above = svg.find("stroke-width=\"1.5\" stroke-linejoin");
  EXPECT_LT(below, above);
  EXPECT_NE(above, svg.npos);
  run.ways[2].losses = {std::numeric_limits<float>::infinity(), std::nanf("")};
  EXPECT_THAT(to_svg(run), Not(ContainsRegex("nan|inf[^l]")));
}

std::optional<options> parse(std::vector<const char*> arguments, int& exit_code) {
  arguments.insert(arguments.begin(), "pipeline");
  return parse_options(static_cast<int>(arguments.size()), arguments.data(), exit_code);
}

TEST(pipeline_options, are_read) {
  int exit_code = -1;
  auto opts = parse({}, exit_code);
  ASSERT_TRUE(opts);
  EXPECT_EQ(opts->micro_batches, (std::vector<std::int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(opts->in_flight, 2u);
  EXPECT_EQ(opts->data, parameter_server::default_digits_file());
  EXPECT_FALSE(opts->local);
  opts = parse({"--blocks",   "6",    "--width",         "8",     "--seed",          "4",
                "--steps",    "5",    "--batch-size",    "7",     "--learning-rate", "0.5",
                "--momentum", "0.25", "--micro-batches", "3,5",   "--in-flight",     "1",
                "--repeats",  "9",    "--tolerance",     "0.125", "--data",          "d",
                "--limit",    "2",    "--json",          "j",     "--losses",        "l",
                "--plot",     "p",    "--local"},
               exit_code);
  ASSERT_TRUE(opts);
  const auto& chosen = opts->chosen;
  EXPECT_EQ((std::vector{chosen.blocks, chosen.width, chosen.steps, chosen.batch_size}),
            (std::vector<std::int64_t>{6, 8, 5, 7}));
  EXPECT_EQ((std::vector{chosen.learning_rate, chosen.momentum, opts->tolerance, opts->limit}),
            (std::vector{0.5, 0.25, 0.125, 2.0}));
  EXPECT_EQ(chosen.seed, 4u);
  EXPECT_EQ(opts->micro_batches, (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(opts->in_flight, 1u);
  EXPECT_EQ(opts->repeats, 9);
  EXPECT_EQ(opts->data + opts->json + opts->losses + opts->plot, "djlp");
  EXPECT_TRUE(opts->local);
}

TEST(pipeline_options, refuse_what_makes_no_sense) {
  const std::vector<std::pair<std::vector<const char*>, std::string>> wrong{
      {{"word"}, "word"},
      {{"--width", "6"}, "a multiple of 4"},
      {{"--blocks", "0"}, "from 1 to 1024"},
      {{"--momentum", "1"}, "from 0 to below 1"},
      {{"--in-flight", "0"}, "from 1 to 64"},
      {{"--micro-batches", "2,x"}, "not 'x'"},
      {{"--batch-size", "4", "--micro-batches", "2,8"}, "a batch of 4 cannot be cut into 8"}};
  for (const auto& [arguments, why] : wrong) {
    int exit_code = 0;
    testing::internal::CaptureStderr();
    EXPECT_FALSE(parse(arguments, exit_code));
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(why));
    EXPECT_EQ(exit_code, 2);
  }
}

}  // namespace
