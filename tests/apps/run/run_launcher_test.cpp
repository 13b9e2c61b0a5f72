// What the ranks find, and how the launcher answers wrong command lines and failing ranks.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/apps/run/launcher_harness.hpp"
#include "troupe/apps/run/job.hpp"
#include "troupe/apps/run/processor_shares.hpp"

namespace troupe::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;
using troupe::launcher::processor;
using troupe::launcher::ranges;
using troupe::launcher::share_of;
using troupe::launcher::usable_processors;

const std::string secret(64, 'a');

TEST(launcher, gives_each_rank_its_place) {
  const auto result =
      run_launcher(shell(3, "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR"),
                   {"RANK=7", "WORLD_SIZE=9"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out_lines(),
              UnorderedElementsAre("[0] 0 3 0 3 127.0.0.1", "[1] 1 3 1 3 127.0.0.1",
                                   "[2] 2 3 2 3 127.0.0.1"));
  EXPECT_EQ(result.err, "");
}

TEST(launcher, gives_ranks_of_a_later_machine_their_place) {
  std::vector<std::string> arguments = {"--nnodes", "3",      "--node-rank",
                                        "2",        "--rdzv", "tcp://10.0.0.1:29500"};
  const auto rest = shell(2, "echo $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR:$MASTER_PORT");
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  const auto result = run_launcher(arguments, {"TROUPE_JOB_SECRET=" + secret});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out_lines(),
              UnorderedElementsAre("[4] 4 6 0 10.0.0.1:29500", "[5] 5 6 1 10.0.0.1:29500"));
}

TEST(launcher, starts_more_ranks_than_the_soft_limit_of_descriptors_has_room_for) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max < 256) GTEST_SKIP() << "the hard limit is " << before.rlim_max;
  auto few = before;
  few.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  auto arguments = shell(40, "ulimit -Sn");
  arguments.insert(arguments.begin(), "--no-prefix");
  const auto result = run_launcher(arguments);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out_lines().size(), 40u);
  EXPECT_THAT(result.out_lines(), Each("64"));  // the ranks have what the user has given
}

TEST(launcher, reports_that_the_hard_limit_of_descriptors_is_too_low) {
  FILE* pipe = popen("ulimit -n 64; exec " TROUPE_APPS_DIR "/troupe-run -n 40 true 2>&1", "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char bytes[1024];
  for (std::size_t count = 0; (count = fread(bytes, 1, sizeof bytes, pipe)) > 0;)
    output.append(bytes, count);
  EXPECT_NE(pclose(pipe), 0);
  EXPECT_THAT(output, HasSubstr("this process may have 64 file descriptors, of which"));
  EXPECT_THAT(output, HasSubstr("and needs 96 more to start 40 ranks"));
}

TEST(launcher, machines_of_one_job_agree_on_its_name) {
  const auto name = [](const char* node_rank) {
    return run_launcher({"--nnodes", "2", "--node-rank", node_rank, "--rdzv", "tcp://h:1",
                         "--no-prefix", "sh", "-c", "echo $TROUPE_JOB_ID"},
                        {"TROUPE_JOB_SECRET=" + secret})
        .out;
  };
  EXPECT_EQ(name("0"), name("1"));
  EXPECT_NE(name("0"), "\n");
}

TEST(launcher, makes_a_fresh_secret_for_each_job) {
  const auto job = [] {
    return run_launcher({"--no-prefix", "-n", "2", "sh", "-c", "echo $TROUPE_JOB_SECRET"},
                        {"TROUPE_JOB_SECRET=" + secret})
        .out_lines();
  };
  const auto first = job();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_TRUE(std::regex_match(first[0], std::regex("[0-9a-f]{64}"))) << first[0];
  EXPECT_EQ(first[0], first[1]);
  EXPECT_NE(first[0], secret);
  EXPECT_NE(first, job());
}

TEST(launcher, keeps_the_secret_off_command_lines) {
  // Compared by the shell itself: a program that looked for the secret would have it as argument.
  const auto result = run_launcher(
      shell(2,
            "all=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '); "
            "case $all in *$TROUPE_JOB_SECRET*) echo shown;; *sh*) echo hidden;; esac"));
  EXPECT_THAT(result.out_lines(), UnorderedElementsAre("[0] hidden", "[1] hidden"));
}

TEST(launcher, wants_a_secret_for_several_machines) {
  const auto run = [](std::vector<std::string> options, std::vector<std::string> environment) {
    options.insert(options.end(), {"--nnodes", "2", "--rdzv", "tcp://h:1", "echo", "started"});
    return run_launcher(options, environment);
  };
  auto result = run({}, {"TROUPE_JOB_SECRET="});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("TROUPE_JOB_SECRET"));

  std::string path = (std::filesystem::temp_directory_path() / "troupe-secret-XXXXXX").string();
  close(mkstemp(path.data()));
  std::ofstream(path) << secret << '\n';
  EXPECT_EQ(run({"--secret-file", path}, {}).code, 0);
  chmod(path.c_str(), 0644);
  result = run({"--secret-file", path}, {});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("others may use it (mode 0644)"));
  std::filesystem::remove(path);
  EXPECT_EQ(run({"--secret-file", path}, {}).code, 2);
}

TEST(launcher, refuses_a_malformed_secret) {
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{}, {"--nnodes", "2", "--rdzv", "tcp://h:1"}}) {
    std::vector<std::string> arguments = options;
    arguments.insert(arguments.end(), {"echo", "started"});
    const auto result = run_launcher(arguments, {"TROUPE_JOB_SECRET=xyz"});
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("environment variable TROUPE_JOB_SECRET cannot be used: "
                                      "a job's secret must be 64 hex digits"));
    EXPECT_THAT(result.err, Not(HasSubstr("xyz")));
  }
}

TEST(launcher, divides_the_cores_among_the_ranks) {
  unsetenv("OMP_NUM_THREADS");
  unsetenv("MKL_NUM_THREADS");
  const char* script = "echo $OMP_NUM_THREADS $MKL_NUM_THREADS";
  const int cores = troupe::launcher::usable_cores();
  EXPECT_EQ(run_launcher(shell(1, script)).out, fmt::format("[0] {0} {0}\n", cores));
  EXPECT_THAT(run_launcher(shell(2 * cores, script)).out_lines(), Each(HasSubstr("] 1 1")));
}

TEST(launcher, keeps_thread_counts_that_the_user_has_chosen) {
  const char* script = "echo $OMP_NUM_THREADS $MKL_NUM_THREADS";
  const std::vector<std::string> chosen = {"OMP_NUM_THREADS=7", "MKL_NUM_THREADS=6"};
  EXPECT_EQ(run_launcher(shell(1, script), chosen).out, "[0] 7 6\n");
  EXPECT_EQ(run_launcher({"--threads", "3", "sh", "-c", script}, chosen).out, "[0] 3 3\n");
}

TEST(launcher, keeps_memory_for_tensors_unless_the_user_has_chosen) {
  for (const char* name : {"THP_MEM_ALLOC_ENABLE", "MALLOC_MMAP_THRESHOLD_",
                           "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"})
    unsetenv(name);
  const char* script =
      "echo $THP_MEM_ALLOC_ENABLE,$MALLOC_MMAP_THRESHOLD_,$MALLOC_TRIM_THRESHOLD_,$MALLOC_TOP_PAD_";
  EXPECT_EQ(run_launcher(shell(1, script)).out, "[0] 1,33554432,268435456,16777216\n");
  EXPECT_EQ(run_launcher(shell(1, script), {"THP_MEM_ALLOC_ENABLE=0", "MALLOC_TOP_PAD_=1"}).out,
            "[0] 0,33554432,268435456,1\n");
  EXPECT_EQ(run_launcher({"--plain-memory", "sh", "-c", script}).out, "[0] ,,,\n");
}

TEST(launcher, ties_ranks_to_shares_of_the_processors) {
  const auto all = usable_processors();
  const char* script =
      "echo $LOCAL_RANK $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)";
  const auto line_of = [&](int rank, int ranks) {
    return fmt::format("[{0}] {0} {1}", rank, ranges(share_of(all, rank, ranks)));
  };
  EXPECT_THAT(run_launcher({"-n", "2", "--pin", "cores", "sh", "-c", script}).out_lines(),
              UnorderedElementsAre(line_of(0, 2), line_of(1, 2)));
  std::vector<int> numbers;
  for (const auto& one : all) numbers.push_back(one.number);
  EXPECT_EQ(run_launcher(shell(1, script)).out, fmt::format("[0] 0 {}\n", ranges(numbers)));
  const auto wrong = run_launcher({"--pin", "sockets", "true"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--pin"));
}

TEST(processor_shares, are_whole_cores_while_there_are_enough) {
  // Two packages of two cores of two hardware threads, as Linux numbers them.
  const std::vector<processor> all = {{0, 0, 0}, {4, 0, 0}, {1, 0, 1}, {5, 0, 1},
                                      {2, 1, 0}, {6, 1, 0}, {3, 1, 1}, {7, 1, 1}};
  EXPECT_THAT(share_of(all, 0, 1), ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  EXPECT_THAT(share_of(all, 1, 2), ElementsAre(2, 6, 3, 7));
  EXPECT_THAT(share_of(all, 0, 3), ElementsAre(0, 4));
  EXPECT_THAT(share_of(all, 2, 3), ElementsAre(2, 6, 3, 7));
  EXPECT_THAT(share_of(all, 3, 4), ElementsAre(3, 7));
  EXPECT_THAT(share_of(all, 1, 8), ElementsAre(4));
  EXPECT_THAT(share_of(all, 9, 12), ElementsAre(4));
}

// Whatever their numbers are: ranks that do not outnumber the processors share none, and leave
// none.
TEST(processor_shares, cover_all_processors_once) {
  for (const int packages : {1, 2, 3})
    for (const int cores : {1, 3, 4})
      for (const int threads : {1, 2}) {
        std::vector<processor> all;
        for (int p = 0; p < packages; ++p)
          for (int c = 0; c < cores; ++c)
            for (int t = 0; t < threads; ++t) all.push_back({static_cast<int>(all.size()), p, c});
        for (int ranks = 1; ranks <= static_cast<int>(all.size()); ++ranks) {
          std::vector<int> seen(all.size(), 0);
          for (int rank = 0; rank < ranks; ++rank)
            for (const int one : share_of(all, rank, ranks)) ++seen[static_cast<std::size_t>(one)];
          EXPECT_THAT(seen, Each(1)) << packages << " " << cores << " " << threads << " " << ranks;
        }
      }
}

TEST(processor_shares, are_written_as_the_kernel_does) {
  EXPECT_EQ(ranges({8, 0, 1, 2, 3}), "0-3,8");
  EXPECT_EQ(ranges({5}), "5");
  EXPECT_EQ(ranges({}), "");
}

TEST(launcher, passes_arguments_on_as_they_are) {
  const auto result =
      run_launcher({"-n", "1", "printf", "%s|", "-n", "--help", "a b", "", "--", "$HOME"});
  EXPECT_EQ(result.out, "[0] -n|--help|a b||--|$HOME|\n");
}

TEST(launcher, gives_input_to_rank_0_alone) {
  const auto result = run_launcher(shell(3, "echo $(cat)."), {}, "typed");
  EXPECT_THAT(result.out_lines(), UnorderedElementsAre("[0] typed.", "[1] .", "[2] ."));
}

TEST(launcher, names_the_rank_that_failed_and_how) {
  const auto result =
      run_launcher(shell(3, "[ $RANK = 1 ] && { echo last words >&2; exit 3; }; sleep 60 & wait"));
  EXPECT_EQ(result.code, 3);
  EXPECT_TRUE(std::regex_match(
      result.err, std::regex("\\[1\\] last words\n"
                             "troupe-run: rank 1 \\(pid [0-9]+, sh\\) exited with code 3; "
                             "ending the other 2 ranks\n")))
      << result.err;
}

TEST(launcher, names_the_signal_that_ended_a_rank) {
  const auto result = run_launcher(shell(2, "ulimit -c 0; [ $RANK = 0 ] && kill -SEGV $$; cat"));
  EXPECT_EQ(result.code, 128 + SIGSEGV);
  EXPECT_THAT(result.err, HasSubstr("was ended by SIGSEGV (segmentation fault)"));
}

TEST(launcher, the_first_failure_decides_the_exit_code) {
  const auto result = run_launcher(
      shell(2, "trap 'exit 9' TERM; [ $RANK = 1 ] && exit 4; while :; do sleep 0.01; done"));
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, Not(HasSubstr("code 9")));
}

TEST(launcher, waits_for_ranks_that_take_longer) {
  const auto result = run_launcher(shell(2, "[ $RANK = 1 ] && sleep 0.3; echo done"));
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out_lines(), ElementsAre("[0] done", "[1] done"));
}

TEST(launcher, checks_the_program_before_starting_anything) {
  auto result = run_launcher({"-n", "2", "no-such-program"});
  EXPECT_EQ(result.code, 127);
  EXPECT_EQ(result.err, "troupe-run: no-such-program: not found in PATH\n");
  result = run_launcher({"/no/such/program"});
  EXPECT_EQ(result.code, 127);
  EXPECT_THAT(result.err, HasSubstr("/no/such/program: No such file"));
  result = run_launcher({"/etc/passwd"});
  EXPECT_EQ(result.code, 126);
  EXPECT_THAT(result.err, HasSubstr("not executable"));
  EXPECT_EQ(run_launcher({"/"}).code, 126);
}

TEST(launcher, reports_why_a_file_is_no_program) {
  std::string path = (std::filesystem::temp_directory_path() / "troupe-script-XXXXXX").string();
  close(mkstemp(path.data()));
  std::ofstream(path) << "echo hello\n";
  chmod(path.c_str(), 0755);
  auto result = run_launcher({"-n", "2", path});
  EXPECT_EQ(result.code, 126);
  EXPECT_THAT(result.err, HasSubstr("#!"));
  std::ofstream(path) << "#!/no/such/interpreter\n";
  result = run_launcher({"-n", "2", path});
  EXPECT_EQ(result.code, 126);
  EXPECT_THAT(result.err, HasSubstr("interpreter"));
  std::filesystem::remove(path);
}

TEST(launcher, refuses_a_wrong_command_line) {
  const std::vector<std::vector<std::string>> wrong = {{},
                                                       {"-n", "0", "true"},
                                                       {"--frobnicate", "true"},
                                                       {"--grace", "soon", "true"},
                                                       {"--rdzv", "10.0.0.1:29500", "true"},
                                                       {"--rdzv", "tcp://10.0.0.1:99999", "true"},
                                                       {"--job-id", "a b", "true"},
                                                       {"--job-id", "a\tb", "true"},
                                                       {"--job-id", "a\x7f", "true"},
                                                       {"--nnodes", "2", "true"},
                                                       {"--node-rank", "1", "true"}};
  for (const auto& arguments : wrong) {
    const auto result = run_launcher(arguments);
    EXPECT_EQ(result.code, 2) << testing::PrintToString(arguments);
    EXPECT_THAT(result.err, testing::StartsWith("troupe-run: "));
  }
}

TEST(launcher, helps) {
  const auto result = run_launcher({"--help"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("Examples:"));
  EXPECT_THAT(result.err, IsEmpty());
}

TEST(launcher, prints_its_version) {
  const auto result = run_launcher({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, testing::MatchesRegex("troupe-run [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(launcher, removes_what_a_killed_rank_has_left_in_shared_memory) {
  const auto segment = fmt::format("/dev/shm/ucx_shm_posix_{:x}", getpid());
  const auto result =
      run_launcher(shell(1, "exec 9>" + segment + "; echo content >&9; kill -KILL $$"));
  EXPECT_EQ(result.code, 128 + SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(segment));
  std::filesystem::remove(segment);
}

}  // namespace
}  // namespace troupe::test
