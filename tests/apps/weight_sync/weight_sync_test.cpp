// weight_sync: samplers that follow a trainer, what is reported, and the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "tests/apps/run/launcher_harness.hpp"
#include "troupe/apps/weight_sync/trainer.hpp"

namespace {

using namespace weight_sync;
using testing::ContainsRegex;
using testing::HasSubstr;

options quick() {
  options opts;
  opts.shape = {32, 2};
  opts.steps = 20;
  opts.waits = 10;
  return opts;
}

run_record run_on(std::vector<std::string> names, const options& opts) {
  auto nodes = troupe::local_nodes(std::move(names));
  std::ostringstream out;
  common::status_line line(out, false);
  auto record = train(nodes[0], opts, line);
  std::vector<std::jthread> threads;
  for (auto& node : nodes) threads.emplace_back([&node] { node.shutdown(); });
  return record;
}

TEST(weight_sync, samplers_have_the_weights_of_the_trainer) {
  for (const bool wait : {false, true}) {
    auto opts = quick();
    opts.readers_wait = wait;
    const auto record = run_on({"trainer", "one", "two", "three"}, opts);
    EXPECT_TRUE(record.is_right());
    ASSERT_EQ(record.methods.size(), 2u);
    EXPECT_EQ(record.waits.size(), 10u);
    for (const auto& one : record.methods) {
      EXPECT_LT(one.last_loss, one.first_loss);
      EXPECT_EQ(one.publishing.size(), 20u);
      ASSERT_EQ(one.samplers.size(), 3u);
      for (const auto& sampler : one.samplers) {
        EXPECT_EQ(sampler.digests.back().first, 21u) << "not the last version";
        std::set<std::int64_t> different;
        for (const auto& [version, digest] : sampler.digests) different.insert(digest);
        EXPECT_EQ(different.size(), sampler.digests.size());
      }
      EXPECT_LE(one.worst_staleness(), 20u);
    }
  }
}

TEST(weight_sync, copies_a_version_once_at_the_next_write) {
  const auto record = run_on({"trainer", "one"}, quick());
  EXPECT_LE(record.methods[0].copies, 2u * 20);
  EXPECT_GT(record.methods[0].copies, 0u);
  EXPECT_LE(record.copies_while_waiting, 2u * 10);
}

TEST(weight_sync, reports_its_numbers) {
  run_record run{.shape = {1000, 2}, .steps = 10, .samplers = 2};
  run.waits = {0.0001, 0.0002, 0.0009};
  run.wait_bytes = 8'000'000;
  run.copies_while_waiting = 6;
  method_record pull{.by = method::pull, .seconds = 2, .publishing = {0.001, 0.003, 0.002}};
  pull.samplers = {{{{0.5, 1, 3}, {1, 3, 3}}, {{1, 7}, {3, 9}}}, {{{0.6, 2, 3}}, {{2, 8}}}};
  pull.copied_bytes = 80'000'000;
  method_record push{.by = method::push, .seconds = 1, .publishing = {0.1}};
  push.samplers = {{{{0.5, 1, 1}}, {{1, 7}}}};
  run.methods = {pull, push};
  EXPECT_EQ(pull.batches(), 3u);
  EXPECT_EQ(pull.mean_staleness(), 1);
  EXPECT_EQ(pull.worst_staleness(), 2u);
  EXPECT_THAT(table(run), ContainsRegex("pull +2.00 +2.00 +3 +1.5 +1.00 +2 +8.0 "));
  EXPECT_THAT(table(run), HasSubstr("have 8 MB of new weights 200 us after a commit"));
  EXPECT_THAT(table(run), HasSubstr("1.00 copies"));
  EXPECT_THAT(verdict(run), HasSubstr("each sampler had"));
  const auto svg = to_svg(run);
  for (const char* part : {">pull: 1.5 batches/s, 1.00 versions behind<",
                           ">push: 1.0 batches/s, 0.00 versions behind<", ">Seconds<",
                           ">Versions behind the trainer<"})
    EXPECT_THAT(svg, HasSubstr(part));
  const auto document = nlohmann::json::parse(to_json(run));
  EXPECT_EQ(document["methods"][0]["most_versions_behind"], 2);
  EXPECT_NEAR(document["wait_us"].get<double>(), 200, 1e-6);
  run.methods[1].wrong = 3;
  EXPECT_FALSE(run.is_right());
  EXPECT_THAT(verdict(run), HasSubstr("3 times"));
}

TEST(weight_sync, is_a_program) {
  using troupe::test::launch;
  const std::string program = std::string(TROUPE_APPS_DIR) + "/weight_sync";
  launch good({"-n", "3", program, "--width", "64", "--steps", "5", "--waits", "5"});
  const auto end = good.wait();
  EXPECT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_THAT(end.out, HasSubstr("each sampler had the trainer's own weights"));
  launch alone({"-n", "1", program});
  EXPECT_EQ(alone.wait().code, 1);
  launch wrong({"-n", "2", program, "--steps", "0"});
  EXPECT_EQ(wrong.wait().code, 2);
}

}  // namespace
