// How a job ends: signals, grace, and nothing left behind. The launcher's rules:
//   1. A signal reaches each rank once; a second one kills at once.
//   2. Whoever does not end within the grace is killed.
//   3. When the launcher is gone, however it went, so is every process of the job.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "tests/apps/run/launcher_harness.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

/// A rank with children: one in its group, one that has left it as a daemon does.
constexpr const char* with_children =
    "sleep 300 & setsid sh -c 'echo daemon; exec sleep 300' & echo rank; wait";

bool has_lines(const launch& job, long count) {
  return soon([&] {
    const std::string text = job.out();
    return std::count(text.begin(), text.end(), '\n') >= count;
  });
}

bool all_gone(const launch& job) {
  return soon([&] { return job.processes().empty(); });
}

// What a shell starts in the background ignores SIGINT, what nohup starts SIGHUP; the launchers
// would too.
class default_signals : public testing::Environment {
  void SetUp() override {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, SIG_DFL);
  }
};
const auto* const before_all = testing::AddGlobalTestEnvironment(new default_signals);

class launcher_signal : public testing::TestWithParam<int> {};

TEST_P(launcher_signal, reaches_each_rank_once) {
  launch job(shell(2,
                   "n=0; trap 'n=$((n+1)); echo got $n' INT TERM HUP; echo ready; "
                   "while [ $n = 0 ]; do sleep 0.01; done; sleep 0.2; exit 5"));
  ASSERT_TRUE(has_lines(job, 2));
  job.signal(GetParam());
  const auto result = job.wait();
  EXPECT_EQ(result.code, 128 + GetParam());
  EXPECT_THAT(result.out_lines(),
              UnorderedElementsAre("[0] ready", "[1] ready", "[0] got 1", "[1] got 1"));
  EXPECT_THAT(result.err, HasSubstr("to 2 ranks"));
}

INSTANTIATE_TEST_SUITE_P(all, launcher_signal, testing::Values(SIGINT, SIGTERM, SIGHUP));

TEST(launcher_stop, a_signal_to_the_group_counts_once) {
  // A terminal, and the program `timeout`, signal the whole group of the launcher. It takes two
  // signals for one that come within 100 ms: this process may stand still between them, but not
  // each time.
  launch_result result;
  for (int i = 0; i < 5 && result.code != 0; ++i) {
    launch job(shell(1, "trap 'sleep 0.3; echo saved; exit 0' INT; echo ready; sleep 300 & wait"));
    ASSERT_TRUE(has_lines(job, 1));
    job.signal(SIGINT);
    kill(-job.pid(), SIGINT);
    result = job.wait();
  }
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "[0] ready\n[0] saved\n");
}

TEST(launcher_stop, a_second_signal_kills_at_once) {
  std::vector<std::string> arguments = {"--grace", "300s"};
  const auto rest = shell(2, "trap 'echo no' INT; echo ready; while :; do sleep 0.01; done");
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  launch job(arguments);
  ASSERT_TRUE(has_lines(job, 2));
  job.signal(SIGINT);
  ASSERT_TRUE(has_lines(job, 4));
  ASSERT_TRUE(soon([&] {
    job.signal(SIGINT);
    return job.err().find("killing") != std::string::npos;
  }));
  EXPECT_EQ(job.wait().code, 128 + SIGINT);
  EXPECT_TRUE(all_gone(job));
}

TEST(launcher_stop, kills_after_the_grace) {
  const auto start = std::chrono::steady_clock::now();
  const auto result = run_launcher(
      {"-n", "2", "--grace", "300ms", "sh", "-c",
       "ready=$TROUPE_TEST_MARK/ready; "
       "if [ $RANK = 0 ]; then while [ ! -e $ready ]; do sleep 0.01; done; exit 6; fi; "
       "trap '' TERM; touch $ready; while :; do sleep 0.01; done"});
  EXPECT_EQ(result.code, 6);
  EXPECT_THAT(result.err, HasSubstr("did not end within 0.3 s"));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(300));
}

TEST(launcher_stop, ends_the_children_of_ranks_too) {
  launch job(shell(2, std::string(with_children)));
  ASSERT_TRUE(has_lines(job, 4));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().code, 128 + SIGTERM);
  EXPECT_TRUE(job.processes().empty());
}

TEST(launcher_stop, ends_what_successful_ranks_leave_behind) {
  launch job(shell(2, "setsid sleep 300 & echo done"));
  const auto result = job.wait();
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("ending 2 processes that the ranks left behind"));
  EXPECT_TRUE(job.processes().empty());
}

TEST(launcher_stop, waits_for_the_last_output_of_a_pipeline) {
  // It waits for half a second after the rank's end.
  launch_result result;
  for (int i = 0; i < 5 && result.out != "[0] first\n[0] last\n"; ++i)
    result = run_launcher(
        shell(1, "(while kill -0 $$; do sleep 0.01; done 2>&-; echo last) & echo first"));
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "[0] first\n[0] last\n");
  EXPECT_EQ(result.err, "");
}

TEST(launcher_stop, leaves_nothing_when_it_is_killed_itself) {
  launch job(shell(3, with_children));
  ASSERT_TRUE(has_lines(job, 6));
  ASSERT_GE(job.processes().size(), 3 * 3u);
  job.signal(SIGKILL);
  EXPECT_EQ(job.wait().code, 128 + SIGKILL);
  EXPECT_TRUE(all_gone(job)) << testing::PrintToString(job.processes());
}

TEST(launcher_stop, leaves_nothing_when_its_supervisor_is_killed) {
  launch job(shell(3, with_children));
  ASSERT_TRUE(has_lines(job, 6));
  // The launcher's one child: the parent of the ranks.
  const auto processes = job.processes();
  const pid_t supervisor = *std::find_if(processes.begin(), processes.end(), [&](pid_t pid) {
    return pid != job.pid() && getpgid(pid) == job.pid();
  });
  kill(supervisor, SIGKILL);
  EXPECT_EQ(job.wait().code, 128 + SIGKILL);
  EXPECT_TRUE(job.processes().empty()) << testing::PrintToString(job.processes());
}

TEST(launcher_stop, keeps_ignoring_what_the_user_ignores) {
  std::signal(SIGHUP, SIG_IGN);  // as nohup does; the launcher inherits it
  launch job(shell(1, "echo ready; sleep 0.3; echo lived"));
  std::signal(SIGHUP, SIG_DFL);
  ASSERT_TRUE(has_lines(job, 1));
  job.signal(SIGHUP);
  const auto result = job.wait();
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "[0] ready\n[0] lived\n");
}

}  // namespace
}  // namespace troupe::test
