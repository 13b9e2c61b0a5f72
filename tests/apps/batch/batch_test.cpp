#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/apps/run/launcher_harness.hpp"
#include "troupe/apps/batch/agent.hpp"
#include "troupe/apps/batch/options.hpp"
#include "troupe/apps/batch/parameter_server.hpp"
#include "troupe/apps/batch/run.hpp"
#include "troupe/apps/batch/trainer.hpp"

namespace {

using namespace batch;
using namespace std::chrono_literals;
using testing::AnyOf;
using testing::HasSubstr;

void shut_down(std::vector<troupe::node>& nodes) {
  std::vector<std::jthread> threads;
  for (auto& node : nodes) threads.emplace_back([&node] { node.shutdown(); });
}

TEST(batch_collector, completes_a_round_when_all_have_come) {
  int sum = 0, rounds = 0;
  batch_collector<int> together(3, [&] {
    ++rounds;
    return std::exchange(sum, 0);
  });
  for (int round = 1; round <= 3; ++round) {
    std::vector<troupe::future<int>> results;
    for (const std::size_t member : {2u, 0u, 1u}) {
      for (const auto& each : results) EXPECT_FALSE(each.ready());
      results.push_back(together.submit(member, [&] { sum += int(member) + round; }));
    }
    for (const auto& each : results) EXPECT_EQ(each.get(), 3 + 3 * round);
    EXPECT_EQ(rounds, round);
  }
}

TEST(batch_collector, refuses_strangers_and_second_parts) {
  batch_collector<int> together(2, [] { return 1; });
  int taken = 0;
  const auto take = [&] { ++taken; };
  const auto first = together.submit(0, take);
  EXPECT_THROW(together.submit(0, take), troupe::invalid_argument);
  EXPECT_THROW(together.submit(2, take), troupe::invalid_argument);
  EXPECT_EQ(taken, 1);
  together.leave(1);
  EXPECT_EQ(first.get(), 1);
  EXPECT_THROW(together.submit(1, take), troupe::invalid_argument);
}

TEST(batch_collector, does_not_wait_for_those_who_have_left) {
  int rounds = 0;
  batch_collector<int> together(3, [&] { return ++rounds; });
  const auto take = [] {};
  const auto first = together.submit(0, take), second = together.submit(1, take);
  together.leave(1);  // after it has come: its part counts
  EXPECT_FALSE(first.ready());
  together.leave(2);  // the last who was awaited
  EXPECT_EQ(first.get(), 1);
  EXPECT_EQ(second.get(), 1);
  EXPECT_EQ(together.submit(0, take).get(), 2);  // alone now
  together.leave(0);
  EXPECT_EQ(rounds, 2);  // no round without a part
}

TEST(batch_collector, misses_a_part_that_could_not_be_taken) {
  batch_collector<int> together(2, [] { return 7; });
  const auto first = together.submit(0, [] {});
  EXPECT_THROW(together.submit(1, [] { throw std::out_of_range("bad"); }), std::out_of_range);
  EXPECT_FALSE(first.ready());
  EXPECT_EQ(together.submit(1, [] {}).get(), 7);
}

TEST(batch_collector, notifies_all_of_a_round_that_failed) {
  bool good = false;
  batch_collector<int> together(2, [&]() -> int {
    if (!good) throw std::out_of_range("bad");
    return 1;
  });
  const auto first = together.submit(0, [] {}), second = together.submit(1, [] {});
  EXPECT_THROW(first.get(), std::out_of_range);
  EXPECT_THROW(second.get(), std::out_of_range);
  good = true;
  together.submit(0, [] {});
  EXPECT_EQ(together.submit(1, [] {}).get(), 1);
}

TEST(batch_collector, holds_for_many_threads) {
  constexpr std::size_t members = 8;
  constexpr int rounds = 500;
  int parts = 0;
  batch_collector<int> together(members, [&] { return std::exchange(parts, 0); });
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < members; ++i)
      threads.emplace_back([&, i] {
        for (int round = 0; round < rounds; ++round)
          if (together.submit(i, [&] { ++parts; }).get() != int(members)) ++wrong;
      });
  }
  EXPECT_EQ(wrong, 0);
}

constexpr network_shape small{6, 8, 3};

tensors gradients_of_ones(double factor) {
  tensors out;
  for (const auto& parameter : network(small).parameters())
    out.push_back(at::full(parameter.sizes(), factor));
  return out;
}

TEST(parameter_server, makes_one_step_of_the_mean_for_the_gradients_of_all) {
  parameter_server together(small, 1, 4), alone(small, 1, 1);
  std::vector<troupe::future<tensors>> models;
  for (std::uint32_t i = 0; i < 4; ++i)
    models.push_back(together.update_and_fetch(i, gradients_of_ones(i + 0.5)));
  const auto expected = alone.update_alone_and_fetch(gradients_of_ones(2));
  for (const auto& model : models)
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(model.get()[i].equal(expected[i]));
  EXPECT_EQ(together.gradients(), 4);
  EXPECT_EQ(together.steps(), 1);
  EXPECT_EQ(alone.steps(), 1);
}

TEST(parameter_server, refuses_gradients_of_another_model) {
  parameter_server server(small, 1, 1);
  auto few = gradients_of_ones(1), other = few, doubles = few;
  few.pop_back();
  other[0] = at::ones({2, 2});
  doubles[1] = doubles[1].to(at::kDouble);
  for (const auto& wrong : {few, other, doubles, tensors(few.size() + 1)}) {
    EXPECT_THROW(server.update_alone_and_fetch(wrong), troupe::invalid_argument);
    EXPECT_THROW(server.update_and_fetch(0, wrong).get(), troupe::invalid_argument);
  }
  EXPECT_EQ(server.gradients(), 0);
  EXPECT_EQ(server.update_and_fetch(0, gradients_of_ones(1)).get().size(), 6u);
}

TEST(agent, acts_for_all_in_one_pass_as_for_each_alone) {
  agent together(64, 3, 5), alone(64, 3, 5);
  for (int step = 0; step < 100; ++step) {
    std::vector<troupe::future<std::int64_t>> actions;
    std::vector<at::Tensor> states;
    for (std::uint32_t i = 0; i < 5; ++i) states.push_back(at::randn({4}));
    for (std::uint32_t i = 0; i < 5; ++i) actions.push_back(together.select_action(i, states[i]));
    // The passes round differently; a draw that close to the probability is not in this seed.
    for (std::uint32_t i = 0; i < 5; ++i)
      EXPECT_EQ(actions[i].get(), alone.select_action_alone(i, states[i]));
  }
  EXPECT_EQ(together.passes(), 100);
  EXPECT_EQ(alone.passes(), 500);
  EXPECT_THROW(alone.select_action_alone(0, at::zeros({3})), troupe::invalid_argument);
  EXPECT_THROW(together.select_action(0, at::Tensor()).get(), troupe::invalid_argument);
}

options small_job(job_kind job, std::size_t members) {
  return {.job = job, .members = members, .rounds = 20, .width = 32, .json = {}};
}

TEST(batch, makes_exactly_one_pass_for_a_call_of_everyone) {
  for (const std::size_t members : {1u, 5u}) {
    auto nodes = troupe::local_nodes({"server", "first", "second"});
    std::ostringstream out;
    common::status_line line(out, false);
    for (const auto& result :
         {compare_servers(nodes[0], small_job(job_kind::server, members), line),
          compare_agents(nodes[0], small_job(job_kind::agent, members), line)}) {
      EXPECT_TRUE(result.complete());
      EXPECT_EQ(result.batched.calls, std::int64_t(members) * 20);
      EXPECT_EQ(result.batched.passes, 20);
      EXPECT_EQ(result.one_by_one.calls, std::int64_t(members) * 20);
      EXPECT_EQ(result.one_by_one.passes, std::int64_t(members) * 20);
      EXPECT_THAT(out.str(), HasSubstr(verdict(result) + "\n"));
    }
    shut_down(nodes);
  }
}

TEST(batch, trainers_learn) {
  auto nodes = troupe::local_nodes({"server", "first"});
  auto server = nodes[0].make_rref(std::in_place_type<parameter_server>, small, 1u, 2u);
  std::vector<troupe::future<training_result>> trainers;
  for (std::uint32_t i = 0; i < 2; ++i)
    trainers.push_back(nodes[0].rpc_async<&train>(1, training{server, i, small, 1, 2000, 8, true},
                                                  troupe::timeout(0s)));
  for (const auto& each : trainers) EXPECT_LT(each.get().last_loss, 0.7 * each.get().first_loss);
  server = {};
  shut_down(nodes);
}

// Ends that node once it has sent as much as it does in a small part of its work.
std::jthread end_during_work(const troupe::node& whom) {
  const auto before = whom.debug_info().traffic.messages_sent;
  return std::jthread([=] {
    EXPECT_TRUE(
        troupe::test::soon([&] { return whom.debug_info().traffic.messages_sent >= before + 50; }));
    whom.shutdown(false);
  });
}

TEST(batch, goes_on_without_a_rank_that_is_lost) {
  auto opts = small_job(job_kind::server, 4);
  opts.rounds = 1500;
  bool lost_in_time = false;  // a busy machine may be too late for it
  for (int i = 0; i < 20 && !lost_in_time; ++i) {
    auto nodes = troupe::local_nodes({"server", "first", "second"});
    std::ostringstream out;
    common::status_line line(out, false);
    auto killer = end_during_work(nodes[2]);
    const auto result = compare_servers(nodes[0], opts, line);
    killer.join();
    nodes.pop_back();
    shut_down(nodes);
    lost_in_time = !result.batched.failures.empty();
    if (!lost_in_time) continue;
    EXPECT_FALSE(result.complete());
    // One of the two that were there may have come to its end before.
    EXPECT_THAT(out.str(),
                AnyOf(HasSubstr("\nwithout trainer 1, 3: "), HasSubstr("\nwithout trainer 1: "),
                      HasSubstr("\nwithout trainer 3: ")));
    EXPECT_THAT(out.str(), HasSubstr("not comparable"));
    EXPECT_EQ(result.batched.passes, 1500);  // the others have come to their end
    EXPECT_EQ(result.one_by_one.calls, 4 * 1500);
  }
  EXPECT_TRUE(lost_in_time);
}

TEST(batch, ends_when_nobody_is_left) {
  auto nodes = troupe::local_nodes({"server", "only"});
  auto opts = small_job(job_kind::agent, 3);
  opts.rounds = 1000000;
  auto killer = end_during_work(nodes[1]);
  std::ostringstream out;
  common::status_line line(out, false);
  EXPECT_THROW(compare_agents(nodes[0], opts, line), troupe::peer_lost);
  killer.join();
  ASSERT_TRUE(troupe::test::soon([&] { return nodes[0].workers().others().empty(); }));
  EXPECT_THROW(compare_agents(nodes[0], opts, line), troupe::invalid_argument);
}

comparison some_comparison() {
  comparison result;
  result.job = "server";
  result.members = 8;
  result.batched.seconds = 3.1;
  result.one_by_one.seconds = 9.8;
  return result;
}

TEST(comparison, reports_what_was_measured) {
  auto result = some_comparison();
  EXPECT_EQ(verdict(result), "batched 3.1 s, one by one 9.8 s: 3.2 times faster");
  std::swap(result.batched, result.one_by_one);
  EXPECT_EQ(verdict(result), "batched 9.8 s, one by one 3.1 s: 3.2 times slower");
  result.batched.failures.push_back("3: lost");
  EXPECT_THAT(verdict(result), HasSubstr("not comparable"));
}

TEST(comparison, json_has_its_numbers) {
  auto result = some_comparison();
  result.batched.passes = 50;
  auto document = nlohmann::json::parse(to_json(result));
  EXPECT_EQ(document["job"], "server");
  EXPECT_EQ(document["members"], 8);
  EXPECT_EQ(document["batched"]["passes"], 50);
  EXPECT_NEAR(document["times_faster"], 9.8 / 3.1, 1e-9);
  result.one_by_one.failures.push_back("3: lost");
  document = nlohmann::json::parse(to_json(result));
  EXPECT_TRUE(document["times_faster"].is_null());
  EXPECT_EQ(document["one_by_one"]["failures"][0], "3: lost");
}

std::optional<options> parse(std::vector<const char*> arguments, int& exit_code) {
  arguments.insert(arguments.begin(), "batch");
  return parse_options(static_cast<int>(arguments.size()), arguments.data(), exit_code);
}

TEST(batch_options, are_those_of_the_job) {
  int exit_code = -1;
  auto opts = parse({"server"}, exit_code);
  ASSERT_TRUE(opts);
  EXPECT_EQ(opts->job, job_kind::server);
  EXPECT_EQ(opts->members, 8u);
  EXPECT_EQ(opts->width, 1024);
  opts = parse({"agent", "--observers", "3", "--steps", "7", "--width", "9", "--seed", "5",
                "--limit", "0.5", "--json", "a.json"},
               exit_code);
  ASSERT_TRUE(opts);
  EXPECT_EQ(opts->job, job_kind::agent);
  EXPECT_EQ(opts->members, 3u);
  EXPECT_EQ(opts->rounds, 7);
  EXPECT_EQ(opts->width, 9);
  EXPECT_EQ(opts->seed, 5u);
  EXPECT_EQ(opts->limit, 0.5);
  EXPECT_EQ(opts->json, "a.json");
}

TEST(batch_options, refuse_what_makes_no_sense) {
  for (const auto& arguments : std::vector<std::vector<const char*>>{{},
                                                                     {"word"},
                                                                     {"server", "agent"},
                                                                     {"server", "--observers", "2"},
                                                                     {"server", "--trainers", "0"},
                                                                     {"agent", "--samples", "2"},
                                                                     {"agent", "--limit", "nan"},
                                                                     {"agent", "--limit", "0"},
                                                                     {"agent", "--steps", "-1"},
                                                                     {"agent", "--seed", "x"}}) {
    int exit_code = 0;
    testing::internal::CaptureStderr();
    EXPECT_FALSE(parse(arguments, exit_code));
    EXPECT_NE(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(exit_code, 2);
  }
}

TEST(batch_options, answer_help_and_version) {
  for (const auto& arguments : std::vector<std::vector<const char*>>{
           {"--help"}, {"server", "--help"}, {"agent", "--help"}, {"--version"}}) {
    int exit_code = -1;
    testing::internal::CaptureStdout();
    EXPECT_FALSE(parse(arguments, exit_code));
    EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("batch"));
    EXPECT_EQ(exit_code, 0);
  }
}

std::vector<std::string> program(int ranks, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {"-n", std::to_string(ranks), std::string(TROUPE_APPS_DIR) + "/batch"});
  return arguments;
}

TEST(batch_program, compares_on_three_ranks) {
  const std::string path = testing::TempDir() + "batch_test." + std::to_string(getpid());
  for (const char* job : {"server", "agent"}) {
    const auto result =
        troupe::test::run_launcher(program(3, {job, "--width", "64", "--json", path}));
    EXPECT_EQ(result.code, 0) << result.out << result.err;
    EXPECT_THAT(result.out_lines().back(),
                testing::ContainsRegex("batched [0-9.]+ s, one by one [0-9.]+ s: [0-9.]+ times"));
    std::ifstream file(path);
    const auto document = nlohmann::json::parse(file);
    EXPECT_EQ(document["job"], job);
    EXPECT_EQ(document["batched"]["calls"], document["one_by_one"]["calls"]);
    std::remove(path.c_str());
  }
}

TEST(batch_program, reports_that_it_needs_two_ranks) {
  const auto result = troupe::test::run_launcher(program(1, {"server"}));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("troupe-run -n 3"));
}

TEST(batch_program, ends_with_a_rank_that_is_killed) {
  troupe::test::launch job(program(3, {"server", "--width", "64", "--rounds", "1000000"}));
  ASSERT_TRUE(troupe::test::soon([&] { return job.out().find("gradients") != std::string::npos; }));
  const auto ranks = job.processes();
  pid_t last = 0;
  for (const pid_t each : ranks)
    if (each != job.pid()) last = std::max(last, each);
  kill(last, SIGKILL);
  const auto result = job.wait();
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("SIGKILL"));
}

}  // namespace
