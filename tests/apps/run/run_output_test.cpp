// Output of many ranks at once, of much output, and of outputs that nobody reads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <string>

#include "tests/apps/run/launcher_harness.hpp"

namespace troupe::test {
namespace {

TEST(launcher_output, lines_of_64_ranks_stay_whole) {
  const auto result = run_launcher(
      shell(64,
            "i=0; while [ $i -lt 50 ]; do printf 'rank %s ' $RANK; echo line $i; i=$((i+1)); "
            "done"));
  EXPECT_EQ(result.code, 0) << result.err;
  std::map<std::string, int> next;
  for (const std::string& line : result.out_lines()) {
    const std::string rank = line.substr(1, line.find(']') - 1);
    EXPECT_EQ(line, "[" + rank + "] rank " + rank + " line " + std::to_string(next[rank]++));
  }
  EXPECT_EQ(next.size(), 64u);
  for (const auto& [rank, lines] : next) EXPECT_EQ(lines, 50) << rank;
}

TEST(launcher_output, ends_64_ranks_when_one_fails) {
  const auto result = run_launcher(shell(64, "[ $RANK = 63 ] && exit 7; sleep 300"));
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.err, testing::HasSubstr("rank 63 "));
}

TEST(launcher_output, keeps_streams_apart) {
  const auto result = run_launcher(shell(1, "echo out; echo err >&2; printf tail; printf end >&2"));
  EXPECT_EQ(result.out, "[0] out\n[0] tail\n");
  EXPECT_EQ(result.err, "[0] err\n[0] end\n");
}

TEST(launcher_output, passes_long_lines_and_any_bytes) {
  const auto result = run_launcher(
      shell(2, "head -c 5000000 /dev/zero | tr '\\0' $RANK; echo; printf '\\000\\377'"));
  ASSERT_EQ(result.out.size(), 2 * (4 + 5'000'000 + 1 + 4 + 2 + 1));
  for (const char rank : {'0', '1'}) {
    const std::string prefix = std::string("[") + rank + "] ";
    EXPECT_NE(result.out.find(prefix + std::string(5'000'000, rank) + '\n'), std::string::npos);
    EXPECT_NE(result.out.find(prefix + std::string("\0\xff\n", 3)), std::string::npos);
  }
}

TEST(launcher_output, can_leave_the_prefix_away) {
  EXPECT_EQ(run_launcher({"--no-prefix", "echo", "text"}).out, "text\n");
}

TEST(launcher_output, colours_only_when_asked_or_watched) {
  EXPECT_EQ(run_launcher({"--colour", "always", "echo", "text"}).out, "\033[31m[0]\033[0m text\n");
  EXPECT_EQ(run_launcher({"echo", "text"}).out, "[0] text\n");
}

TEST(launcher_output, survives_a_reader_that_goes_away) {
  // Under a shell, so that the reader can be a pipe that closes.
  const auto result =
      run_launcher({"--no-prefix", "sh", "-c",
                    std::string(TROUPE_APPS_DIR) + "/troupe-run -n 2 yes | head -n 1; echo over"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, testing::MatchesRegex("\\[[01]\\] y\nover\n"));
  EXPECT_THAT(result.err, testing::HasSubstr("SIGPIPE (broken pipe)"));
}

TEST(launcher_output, a_reader_that_stops_does_not_stop_the_launcher) {
  // The pipe's reader sleeps; the signal must still be passed on.
  const auto result = run_launcher(
      {"--no-prefix", "sh", "-c",
       "{ " + std::string(TROUPE_APPS_DIR) +
           "/troupe-run -n 1 --grace 1s yes & echo $! >&2; sleep 0.5; kill -TERM $!; sleep 1; "
           "kill -TERM $!; wait $!; echo code $? >&2; } | sleep 4"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, testing::HasSubstr("code 143"));
}

TEST(launcher_output, a_reader_that_stops_is_given_the_grace) {
  // Every rank has ended; one signal must be enough, whenever it comes.
  for (const char* script : {"trap 'head -c 300000 /dev/zero; exit 0' TERM; echo up >&2; "
                             "while :; do sleep 0.01; done",
                             "head -c 300000 /dev/zero; echo up >&2"}) {
    launch job({"--no-prefix", "sh", "-c",
                "{ " + std::string(TROUPE_APPS_DIR) + "/troupe-run --grace 300ms sh -c \"" +
                    script +
                    "\" & echo pid $! >&2; wait $!; echo code $? >&2; "
                    "touch $TROUPE_TEST_MARK/over; } | "
                    "while [ ! -e $TROUPE_TEST_MARK/over ]; do sleep 0.01; done"});
    std::string output;
    ASSERT_TRUE(soon([&] {
      output = job.err();
      const auto pid = output.find("pid ");
      return output.find(" up\n") != output.npos && pid != output.npos &&
             output.find('\n', pid) != output.npos;
    }));
    kill(std::stoi(output.substr(output.find("pid ") + 4)), SIGTERM);
    EXPECT_THAT(job.wait().err, testing::HasSubstr("code 143"));
  }
}

TEST(launcher_output, closed_standard_streams_are_empty) {
  for (int closed = 1; closed < 8; ++closed) {
    const std::string redirections = std::string(closed & 1 ? " <&-" : "") +
                                     (closed & 2 ? " >&-" : "") + (closed & 4 ? " 2>&-" : "");
    const auto result =
        run_launcher({"--no-prefix", "sh", "-c",
                      std::string(TROUPE_APPS_DIR) +
                          "/troupe-run sh -c 'cat; echo out; echo err >&2; exit 3'" + redirections},
                     {}, "in ");
    EXPECT_EQ(result.code, 3) << redirections << result.err;
    const std::string input = closed & 1 ? "" : "in ";
    EXPECT_EQ(result.out, closed & 2 ? "" : "[0] " + input + "out\n") << redirections;
    EXPECT_EQ(result.err.find("[0] err\n") != std::string::npos, !(closed & 4)) << redirections;
  }
}

}  // namespace
}  // namespace troupe::test
