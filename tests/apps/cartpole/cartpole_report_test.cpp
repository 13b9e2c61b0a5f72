#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "troupe/apps/cartpole/options.hpp"
#include "troupe/apps/cartpole/progress.hpp"
#include "troupe/apps/cartpole/reward_plot.hpp"
#include "troupe/apps/cartpole/training.hpp"

namespace {

using namespace cartpole;
using testing::HasSubstr;
using testing::Not;

// A run of `rounds` rounds of ten steps, each a tenth of a second long.
training_record record_of(int rounds, double last, double running) {
  training_record record{.seed = 7, .observers = 2};
  for (int i = 0; i < rounds; ++i) {
    record.last_rewards.push_back(last);
    record.running_rewards.push_back(running);
    record.steps += 10;
    record.calls += 20;
    record.seconds += 0.125;
  }
  return record;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(training, stops_above_the_threshold) {
  training_record record{.seed = 1, .observers = 1};
  int rounds = 0;
  int watched = 0;
  train(
      record, {}, 2,
      [&] {
        ++rounds;
        return round_result{.last_reward = 500, .running_reward = 473.0 + rounds, .steps = 4};
      },
      [&](const training_record& now) { EXPECT_EQ(now.episodes(), std::size_t(++watched)); });
  EXPECT_EQ(rounds, 3);  // 475 itself does not solve the task
  EXPECT_EQ(watched, 3);
  EXPECT_TRUE(record.solved);
  EXPECT_EQ(record.steps, 12);
  EXPECT_EQ(record.calls, 24);
  EXPECT_EQ(record.running_reward(), 476);
  EXPECT_EQ(record.running_rewards.size(), 3u);
  EXPECT_GT(record.seconds, 0);
}

TEST(training, stops_at_its_limits) {
  const auto nothing = [](const training_record&) {};
  const auto round = [] { return round_result{.last_reward = 1, .running_reward = 1, .steps = 1}; };
  training_record by_episodes;
  train(by_episodes, {.episodes = 5}, 0, round, nothing);
  EXPECT_EQ(by_episodes.episodes(), 5u);
  EXPECT_FALSE(by_episodes.solved);
  EXPECT_EQ(by_episodes.calls, 0);
  training_record by_time;
  train(by_time, {.seconds = 0.01}, 0, round, nothing);
  EXPECT_GE(by_time.seconds, 0.01);
  EXPECT_FALSE(by_time.solved);
}

TEST(training, json_has_the_runs_numbers) {
  auto record = record_of(8, 20, 15.5);
  record.solved = true;
  const auto document = nlohmann::json::parse(to_json(record));
  EXPECT_EQ(document["solved"], true);
  EXPECT_EQ(document["episodes"], 8);
  EXPECT_EQ(document["seconds"], 1.0);
  EXPECT_EQ(document["steps"], 80);
  EXPECT_EQ(document["steps_per_second"], 80.0);
  EXPECT_EQ(document["calls_per_second"], 160.0);
  EXPECT_EQ(document["running_reward"], 15.5);
  EXPECT_EQ(document["seed"], 7);
  EXPECT_EQ(document["observers"], 2);
  EXPECT_EQ(document["average"], 0);
}

TEST(progress, names_the_threshold_in_the_tutorials_words) {
  std::ostringstream out;
  common::status_line line(out, false);
  progress(line, 10).begin();
  EXPECT_EQ(out.str(), "This will run until reward threshold of 475 is reached. Ctrl+C to exit.\n");
}

TEST(progress, writes_a_line_every_interval_into_a_pipe) {
  std::ostringstream out;
  common::status_line line(out, false);
  progress shown(line, 10);
  for (int i = 1; i <= 25; ++i) shown.update(record_of(i, 26, 10.01));
  EXPECT_EQ(out.str(),
            "Episode 10\tLast reward: 26.00\tAverage reward: 10.01\t80 steps/s\t160 calls/s\n"
            "Episode 20\tLast reward: 26.00\tAverage reward: 10.01\t80 steps/s\t160 calls/s\n");
}

TEST(progress, redraws_one_line_on_a_terminal) {
  std::ostringstream out;
  common::status_line line(out, true);
  progress shown(line, 10);
  for (int i = 1; i <= 25; ++i) shown.update(record_of(i, 26, 10.01));
  EXPECT_EQ(count(out.str(), "\r\x1b[K"), 25u);
  EXPECT_EQ(count(out.str(), "\n"), 0u);
  shown.end(record_of(25, 26, 10.01));
  EXPECT_THAT(out.str(), HasSubstr("calls/s\nStopped before the task was solved."));
}

TEST(progress, redraws_at_most_ten_times_a_second) {
  std::ostringstream out;
  common::status_line line(out, true);
  progress shown(line, 10);
  auto record = record_of(1, 26, 10.01);
  for (int i = 0; i < 1000; ++i) {
    record.seconds += 0.001;
    shown.update(record);
  }
  EXPECT_GE(count(out.str(), "\r"), 9u);
  EXPECT_LE(count(out.str(), "\r"), 11u);
}

TEST(progress, rates_are_those_since_the_line_before) {
  std::ostringstream out;
  common::status_line line(out, false);
  progress shown(line, 1);
  auto record = record_of(1, 1, 1);
  shown.update(record);
  record.steps += 2000;
  record.calls += 4000;
  record.seconds += 1;
  out.str("");
  shown.update(record);
  EXPECT_THAT(out.str(), HasSubstr("\t2,000 steps/s\t4,000 calls/s\n"));
}

TEST(progress, ends_with_the_tutorials_sentence) {
  std::ostringstream out;
  auto record = record_of(8, 500, 475.3163778435275);
  record.solved = true;
  common::status_line line(out, false);
  progress(line, 10).end(record);
  EXPECT_EQ(out.str(),
            "Solved! Running reward is now 475.3163778435275!\n"
            "8 episodes, 80 steps in 1.0 s\t80 steps/s\t160 calls/s\n");
}

TEST(progress, local_runs_report_no_calls) {
  std::ostringstream out;
  auto record = record_of(8, 20, 10);
  record.calls = 0;
  common::status_line line(out, false);
  progress(line, 10).end(record);
  EXPECT_THAT(out.str(), Not(HasSubstr("calls/s")));
}

TEST(cartpole, fails_when_its_output_is_lost) {
  const std::string command =
      std::string(TROUPE_APPS_DIR) + "/cartpole --local --episodes 1 2>&1 >/dev/full";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  EXPECT_EQ(WEXITSTATUS(pclose(pipe)), 1);
  EXPECT_EQ(output, "cartpole: cannot write standard output: No space left on device\n");
}

TEST(reward_plot, shows_points_curve_threshold_axes_title_and_legend) {
  auto record = record_of(100, 250, 100);
  record.running_rewards.back() = 475.5;
  record.solved = true;
  const auto picture = to_svg(record);
  EXPECT_THAT(picture, testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(picture, testing::EndsWith("</svg>\n"));
  EXPECT_EQ(count(picture, "h0"), 100u);  // a dot for each episode
  EXPECT_EQ(count(picture, "<polyline"), 1u);
  EXPECT_EQ(count(picture, "stroke-dasharray"), 2u);  // the threshold, and its legend
  for (const char* label :
       {">Episode<", ">Reward<", "CartPole-v1", ">0<", ">500<", ">1<", ">100<", "running reward",
        "worst observer", "solved at 475", "solved after 100 episodes", "2 observers, seed 7"})
    EXPECT_THAT(picture, HasSubstr(label));
  record.average = 3;
  EXPECT_THAT(to_svg(record), HasSubstr("2 observers that average after 3 episodes each, seed 7"));
}

TEST(reward_plot, puts_rewards_where_they_belong) {
  // 0 lies on the axis at 408, 520.2 at the top at 84; two episodes span 70 to 776.
  training_record record{.last_rewards = {0, 510}, .running_rewards = {0, 510}};
  const auto picture = to_svg(record);
  EXPECT_THAT(picture, HasSubstr("points=\"70.0,408.0 776.0,90.4"));
  EXPECT_THAT(picture, Not(HasSubstr("nan")));
}

TEST(reward_plot, survives_runs_of_no_and_one_episode) {
  for (const int rounds : {0, 1}) {
    const auto picture = to_svg(record_of(rounds, 20, 1));
    EXPECT_THAT(picture, Not(HasSubstr("nan")));
    EXPECT_THAT(picture, Not(HasSubstr("inf")));
  }
}

std::optional<options> parse(std::vector<const char*> arguments, int& exit_code) {
  arguments.insert(arguments.begin(), "cartpole");
  return parse_options(static_cast<int>(arguments.size()), arguments.data(), exit_code);
}

TEST(options, have_the_tutorials_defaults) {
  int exit_code = -1;
  const auto opts = parse({}, exit_code);
  ASSERT_TRUE(opts);
  EXPECT_EQ(opts->seed, 1u);
  EXPECT_EQ(opts->gamma, 0.99);
  EXPECT_EQ(opts->log_interval, 10);
  EXPECT_EQ(opts->observers, 0u);  // the world decides
  EXPECT_EQ(opts->average, 0);     // an agent trains
  EXPECT_FALSE(opts->local);
}

TEST(options, are_read) {
  int exit_code = -1;
  const auto opts = parse({"--seed", "18446744073709551615", "--observers", "3", "--gamma", "0.9",
                           "--episodes", "20", "--max-seconds", "1.5", "--log-interval", "5",
                           "--plot", "a.svg", "--json", "b.json", "--local"},
                          exit_code);
  ASSERT_TRUE(opts);
  EXPECT_EQ(opts->seed, 18446744073709551615u);
  EXPECT_EQ(opts->observers, 3u);
  EXPECT_EQ(opts->gamma, 0.9);
  EXPECT_EQ(opts->episodes, 20);
  EXPECT_EQ(opts->max_seconds, 1.5);
  EXPECT_EQ(opts->log_interval, 5);
  EXPECT_EQ(opts->plot, "a.svg");
  EXPECT_EQ(opts->json, "b.json");
  EXPECT_TRUE(opts->local);
  EXPECT_EQ(parse({"--local"}, exit_code)->observers, 1u);
  EXPECT_EQ(parse({"--average", "3"}, exit_code)->average, 3);
}

TEST(options, print_the_version) {
  int exit_code = -1;
  testing::internal::CaptureStdout();
  EXPECT_FALSE(parse({"--version"}, exit_code));
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              testing::MatchesRegex("cartpole [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_EQ(exit_code, 0);
}

TEST(options, name_what_they_accept) {
  const std::vector<std::vector<const char*>> wrong = {
      {"--gamma", "nan", "must be a number from 0 to 1, and not 'nan'"},
      {"--gamma", "-0.1", "must be a number from 0 to 1, and not '-0.1'"},
      {"--max-seconds", "0", "must be a number above 0, and not '0'"},
      {"--max-seconds", "nan", "must be a number above 0, and not 'nan'"},
      {"--max-seconds", "inf", "must be a number above 0, and not 'inf'"},
      {"--seed", "-1", "must be a whole number from 0 to 18446744073709551615, and not '-1'"},
      {"--seed", "1.5", "must be a whole number from 0 to 18446744073709551615, and not '1.5'"},
      {"--observers", "0", "must be a whole number from 1 to 65535, and not '0'"},
      {"--episodes", "0", "must be a whole number from 1 to 2147483647, and not '0'"},
      {"--average", "0", "must be a whole number from 1 to 2147483647, and not '0'"},
      {"--log-interval", "x", "must be a whole number from 1 to 2147483647, and not 'x'"}};
  for (const auto& each : wrong) {
    int exit_code = 0;
    testing::internal::CaptureStderr();
    EXPECT_FALSE(parse({each[0], each[1]}, exit_code)) << each[0];
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::StartsWith(std::string(each[0]) + ": " + each[2] + "\n"));
    EXPECT_EQ(exit_code, 2);
  }
}

TEST(options, refuse_what_makes_no_sense) {
  for (const auto& arguments : std::vector<std::vector<const char*>>{{"--observers", "0"},
                                                                     {"--gamma", "1.5"},
                                                                     {"--episodes", "0"},
                                                                     {"--log-interval", "0"},
                                                                     {"--local", "--average", "2"},
                                                                     {"--seed", "-1"},
                                                                     {"--no-such-option"},
                                                                     {"word"}}) {
    int exit_code = 0;
    testing::internal::CaptureStderr();
    EXPECT_FALSE(parse(arguments, exit_code)) << arguments.front();
    EXPECT_NE(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(exit_code, 2);
  }
}

}  // namespace
