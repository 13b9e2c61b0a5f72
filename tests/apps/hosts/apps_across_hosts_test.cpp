// Every program of apps/ on two hosts, as far as network namespaces are some: a launcher on each,
// TCP between them on a network that nobody has called trusted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/run/launcher_harness.hpp"
#include "tests/hosts.hpp"

namespace troupe::test {
namespace {

struct app {
  const char* name;
  int ranks;  ///< on each host
  std::vector<std::string> arguments;
  const char* last_line;  ///< of rank 0, as a regular expression
};

class apps_across_hosts : public testing::TestWithParam<app> {};

TEST_P(apps_across_hosts, end_well) {
  const hosts net(2, {1, "1gbit", 1500});
  if (!net.problem().empty()) GTEST_SKIP() << net.problem();
  const auto& what = GetParam();
  const auto start = [&](unsigned host) {
    std::vector<std::string> arguments{"--nnodes",
                                       "2",
                                       "--node-rank",
                                       std::to_string(host),
                                       "--rdzv",
                                       "tcp://" + net.address(0) + ":29500",
                                       "-n",
                                       std::to_string(what.ranks),
                                       std::string(TROUPE_APPS_DIR) + "/" + what.name};
    arguments.insert(arguments.end(), what.arguments.begin(), what.arguments.end());
    const on_host there(net, host);
    return std::make_unique<launch>(
        arguments,
        std::vector<std::string>{"TROUPE_JOB_SECRET=" + std::string(64, '7'), "TROUPE_LOG=info"});
  };
  const auto first = start(0), second = start(1);
  const auto end = first->wait(), other_end = second->wait();
  ASSERT_EQ(end.code, 0) << end.out << end.err << other_end.err;
  EXPECT_EQ(other_end.code, 0) << other_end.err;
  EXPECT_THAT(end.out_lines().back(), testing::ContainsRegex(what.last_line));
  EXPECT_THAT(end.err, testing::HasSubstr("are reached by TCP"));
}

const std::vector<app> apps{
    {"cartpole", 2, {"--seed", "5", "--episodes", "10"}, "10 episodes, [0-9,]+ steps in "},
    {"batch", 2, {"server", "--width", "64"}, "batched [0-9.]+ s, one by one [0-9.]+ s"},
    {"parameter_server", 2, {"--epochs", "2"}, "[0-9.]+ % of [0-9]+ test digits"},
    {"pipeline",
     2,
     {"--width", "8", "--blocks", "4", "--batch-size", "16", "--steps", "4", "--repeats", "1"},
     "the losses are those of one process"},
    {"rnn",
     1,
     {"--vocabulary", "1000", "--embedding", "16", "--hidden", "32", "--max-steps", "30"},
     "perplexity"},
    {"weight_sync",
     1,
     {"--width", "64", "--steps", "5", "--waits", "5"},
     "each sampler had the trainer's own weights"}};

INSTANTIATE_TEST_SUITE_P(each, apps_across_hosts, testing::ValuesIn(apps),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace troupe::test
