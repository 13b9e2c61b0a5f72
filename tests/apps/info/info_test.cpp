#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace troupe::test {
namespace {

struct run_result {
  int code = -1;
  std::string out;
};

run_result run_shell(const std::string& command) {
  run_result result;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return result;
  char bytes[4096];
  for (std::size_t count = 0; (count = fread(bytes, 1, sizeof bytes, pipe)) > 0;)
    result.out.append(bytes, count);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  return result;
}

run_result run_troupe(const std::string& arguments) {
  return run_shell(std::string(TROUPE_APPS_DIR) + "/troupe " + arguments);
}

TEST(info, reports_what_the_machine_offers) {
  const auto result = run_troupe("info --json");
  ASSERT_EQ(result.code, 0);
  const auto report = nlohmann::json::parse(result.out);
  EXPECT_THAT(report["versions"]["libtorch"], testing::StartsWith("2."));
  EXPECT_THAT(report["versions"]["ucx"], testing::StartsWith("1."));
  EXPECT_GE(report["machine"]["cores"], report["machine"]["usable_cores"]);
  EXPECT_GT(report["machine"]["memory_bytes"], report["machine"]["available_bytes"]);
  EXPECT_TRUE(report["machine"]["cma"].is_boolean());
  EXPECT_TRUE(report["gpus"]["devices"].is_array());
  EXPECT_NE(report["gpus"]["backend"].get<std::string>().find("\"troupe\""), std::string::npos);
  std::vector<std::string> lanes;
  for (const auto& lane : report["transports"]["ucx_lanes"]) lanes.push_back(lane["transport"]);
  EXPECT_THAT(lanes, testing::Contains("tcp"));
  EXPECT_THAT(lanes, testing::Contains("posix"));
}

TEST(info, reports_what_is_open) {
  const auto transports = [] {
    return nlohmann::json::parse(run_troupe("info --json").out)["transports"];
  };
  auto report = transports();
  EXPECT_THAT(report["within_this_host"], testing::Not(testing::HasSubstr("sysv")));
  EXPECT_THAT(report["between_hosts"], testing::StartsWith("TCP, whose ends prove"));
  EXPECT_THAT(report["between_hosts"], testing::HasSubstr("authenticated; any port on "));
  EXPECT_THAT(report["open_ports"], testing::HasSubstr("a port of TCP for each rank"));
  EXPECT_THAT(report["rdma_between_hosts"], testing::Not(testing::IsEmpty()));
  setenv("TROUPE_ENCRYPTION", "encrypt", 1);
  setenv("TROUPE_INTERFACES", "lo", 1);
  setenv("TROUPE_PORTS", "40000-40010", 1);
  report = transports();
  setenv("TROUPE_PORTS", "none", 1);
  const auto wrong = transports();
  for (const auto* name : {"TROUPE_ENCRYPTION", "TROUPE_INTERFACES", "TROUPE_PORTS"})
    unsetenv(name);
  EXPECT_THAT(report["between_hosts"],
              testing::HasSubstr("encrypted; ports 40000 to 40010 on lo (127.0.0.1)"));
  EXPECT_THAT(wrong["between_hosts"], testing::HasSubstr("TROUPE_PORTS is 'none'"));
}

TEST(info, takes_thread_counts_from_the_environment) {
  setenv("OMP_NUM_THREADS", "1", 1);
  const auto report = nlohmann::json::parse(run_troupe("info --json").out);
  unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(report["tensor_memory"]["can_be_lent"], true);
  EXPECT_GE(report["tensor_memory"]["limit_bytes"], 64 << 20);
  EXPECT_EQ(report["threads"]["intra_op"], 1);
  EXPECT_EQ(report["threads"]["OMP_NUM_THREADS"], "1");
}

TEST(info, prints_its_version) {
  const std::string version =
      nlohmann::json::parse(run_troupe("info --json").out)["versions"]["troupe"];
  const auto result = run_troupe("--version");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "troupe " + version + "\n");
}

// UCX does not ask whose file that is: in a folder like /tmp it may be another user's.
TEST(info, takes_no_settings_of_ucx_from_the_working_folder) {
  std::string folder = "/tmp/troupe-info-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto log = folder + "/log";
  std::ofstream(log) << "what UCX would empty\n";
  std::ofstream(folder + "/ucx.conf") << "UCX_LOG_FILE=" << log << "\n";
  const auto in_folder = "cd " + folder + " && unset UCX_LOG_FILE && " TROUPE_APPS_DIR;
  EXPECT_EQ(run_shell(in_folder + "/troupe --version").code, 0);
  std::string content;
  std::getline(std::ifstream(log), content);
  EXPECT_EQ(content, "what UCX would empty");
  // The program itself is in its folder again.
  EXPECT_THAT(run_shell(in_folder + "/troupe-run -n 1 /bin/pwd").out, testing::HasSubstr(folder));
  std::filesystem::remove_all(folder);
}

TEST(info, is_readable) {
  const auto result = run_troupe("info");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, testing::ContainsRegex("\n  memory +[0-9.]+ GiB\n"));
  EXPECT_THAT(result.out, testing::ContainsRegex("\n  between hosts "));
}

TEST(info, shows_the_ways_of_collectives) {
  unsetenv("TROUPE_COLLECTIVES");
  const auto usual = nlohmann::json::parse(run_troupe("info --collectives --json").out);
  EXPECT_EQ(usual["ranks"], usual["usable_cores"]);
  EXPECT_EQ(usual["ways"]["all_reduce"][0]["way"], "box");
  EXPECT_EQ(usual["TROUPE_COLLECTIVES"], "not set");
  setenv("TROUPE_COLLECTIVES",
         "all_reduce:staged>=0,barrier:direct>=1048576,network.all_gather:ring>=65536,"
         "network.alpha=9000",
         1);
  const auto changed =
      nlohmann::json::parse(run_troupe("info --collectives --ranks 64 --json").out);
  const auto text = run_troupe("info --collectives").out;
  // What it prints can be given again.
  const auto rules =
      changed["rules"].get<std::string>() + "," + changed["rules_between_hosts"].get<std::string>();
  setenv("TROUPE_COLLECTIVES", rules.c_str(), 1);
  const auto again = nlohmann::json::parse(run_troupe("info --collectives --ranks 64 --json").out);
  setenv("TROUPE_COLLECTIVES", "nonsense", 1);
  const auto wrong = run_troupe("info --collectives 2>&1");
  unsetenv("TROUPE_COLLECTIVES");
  EXPECT_EQ(changed["ranks"], 64);
  EXPECT_EQ(changed["ways"]["all_reduce"][0]["way"], "staged");
  EXPECT_EQ(again["ways"], changed["ways"]);
  EXPECT_EQ(again["between_hosts"], changed["between_hosts"]);
  EXPECT_THAT(text, testing::ContainsRegex("network.all_gather: .*ring from 65536 B"));
  EXPECT_THAT(text, testing::HasSubstr("network.alpha: 9.0 us a message"));
  EXPECT_THAT(text, testing::ContainsRegex("all_reduce +staged from 0 B"));
  EXPECT_THAT(text, testing::ContainsRegex("barrier .*direct from 1 MiB"));
  EXPECT_THAT(text, testing::HasSubstr("\n  direct: two steps, between which ranks read each "
                                       "other's tensors"));
  EXPECT_THAT(text, testing::HasSubstr("\n  piece: 131072 B, what is staged in one step\n"));
  EXPECT_THAT(text, testing::HasSubstr("TROUPE_COLLECTIVES is all_reduce:staged"));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.out, testing::HasSubstr("troupe: 'nonsense' is no rule for collectives"));
  EXPECT_EQ(run_troupe("info --ranks 2 2>/dev/null").code, 2);
}

TEST(info, refuses_a_wrong_command_line) {
  EXPECT_EQ(run_troupe("2>/dev/null").code, 2);
  EXPECT_EQ(run_troupe("nonsense 2>/dev/null").code, 2);
  EXPECT_EQ(run_troupe("--help").code, 0);
}

}  // namespace
}  // namespace troupe::test
