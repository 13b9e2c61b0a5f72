// Jobs of processes, set up from the variables of their launchers, and what happens when one is
// killed.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sodium.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "tests/transport/rendezvous/rendezvous_fixture.hpp"

namespace troupe::transport::test {
namespace {

using settings = std::map<std::string, std::string>;

struct ended {
  std::string output;
  int status = 0;  ///< as waitpid gives it

  bool well() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
};

// A running rendezvous_program.
class rank_process {
public:
  rank_process(const std::string& mode, const settings& variables, int timeout_ms = 100'000) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    output_ = unique_fd(ends[0]);
    const unique_fd input(ends[1]);
    const std::string program = TROUPE_TEST_PROGRAM_DIR "/rendezvous_program";
    const auto timeout = std::to_string(timeout_ms);
    const char* arguments[] = {program.c_str(), mode.c_str(), timeout.c_str(), nullptr};
    std::vector<std::string> texts = {"PATH=/usr/bin:/bin"};
    if (const char* hooks = std::getenv("UCX_MEM_EVENTS"))  // as the sanitizers need it
      texts.push_back(std::string("UCX_MEM_EVENTS=") + hooks);
    for (const auto& [name, value] : variables) texts.push_back(name + "=" + value);
    std::vector<char*> environment;
    for (auto& t : texts) environment.push_back(t.data());
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input.get(), STDOUT_FILENO);
    const int error = posix_spawn(&pid_, program.c_str(), &actions, nullptr,
                                  const_cast<char* const*>(arguments), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error("cannot start " + program);
  }

  rank_process(rank_process&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), output_(std::move(other.output_)) {}

  ~rank_process() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }

  ended finish() {
    ended out;
    char buffer[4096];
    for (ssize_t n; (n = read(output_.get(), buffer, sizeof buffer)) > 0;)
      out.output.append(buffer, static_cast<std::size_t>(n));
    waitpid(std::exchange(pid_, -1), &out.status, 0);
    return out;
  }

private:
  pid_t pid_ = -1;
  unique_fd output_;
};

std::string number(std::uint64_t n) { return std::to_string(n); }

settings as_torchrun(std::uint32_t rank, std::uint32_t size, const std::string& port) {
  return {{"RANK", number(rank)},       {"WORLD_SIZE", number(size)},
          {"LOCAL_RANK", number(rank)}, {"LOCAL_WORLD_SIZE", number(size)},
          {"MASTER_PORT", port},        {"TROUPE_JOB_SECRET", std::string(64, '5')}};
}

template <class Variables>
void expect_meeting(std::uint32_t size, const char* mode, Variables&& variables) {
  std::vector<rank_process> ranks;
  for (std::uint32_t rank = 0; rank < size; ++rank) ranks.emplace_back(mode, variables(rank));
  std::string members = ":";
  for (std::uint32_t rank = 0; rank < size; ++rank)
    members +=
        " worker" + number(rank) + "@" + number(static_cast<std::uint64_t>(ranks[rank].pid()));
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    const auto e = ranks[rank].finish();
    EXPECT_TRUE(e.well()) << e.output;
    EXPECT_CONTAINS(e.output, "rank " + number(rank) + " of " + number(size) + ", local " +
                                  number(rank) + " of " + number(size));
    EXPECT_CONTAINS(e.output, members);
  }
}

TEST(rendezvous_process, eight_meet_as_torchrun_starts_them) {
  const auto port = number(free_port());
  expect_meeting(8, "meet", [&](auto rank) { return as_torchrun(rank, 8, port); });
}

TEST(rendezvous_process, eight_meet_in_a_file) {
  temporary_folder folder;
  expect_meeting(8, "meet", [&](auto rank) {
    auto v = as_torchrun(rank, 8, "1");
    v["METHOD"] = "file://" + (folder.path / "meet").string();
    return v;
  });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

TEST(rendezvous_process, all_are_notified_of_one_with_another_world_size) {
  temporary_folder folder;
  const auto path = folder.path / "meet";
  const auto start = [&](std::uint32_t rank, std::uint32_t size) {
    auto v = as_torchrun(rank, size, "1");
    v["METHOD"] = "file://" + path.string();
    return rank_process("meet", v);
  };
  std::vector<rank_process> ranks;
  ranks.push_back(start(0, 3));
  ranks.push_back(start(1, 3));
  ASSERT_TRUE(eventually([&] { return has_announced(path, 0) && has_announced(path, 1); }));
  ranks.push_back(start(2, 4));
  const auto began = std::chrono::steady_clock::now();
  const auto odd = static_cast<std::uint64_t>(ranks[2].pid());
  for (auto& rank : ranks) {
    const auto e = rank.finish();
    EXPECT_FALSE(e.well());
    EXPECT_CONTAINS(e.output, "rank 2 (process " + number(odd) + " on host ");
    EXPECT_CONTAINS(e.output, "has a world size of 4, but rank ");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, soon_enough);
}

TEST(rendezvous_process, they_may_end_at_once) {
  for (int i = 0; i < 2; ++i) {
    const auto port = number(free_port());
    expect_meeting(4, "quick", [&](auto rank) { return as_torchrun(rank, 4, port); });
  }
}

TEST(rendezvous_process, they_meet_as_open_mpi_starts_them) {
  const auto name = "prterun-" + number(random_id());
  expect_meeting(3, "meet", [&](auto rank) -> settings {
    return {{"OMPI_COMM_WORLD_RANK", number(rank)},
            {"OMPI_COMM_WORLD_SIZE", "3"},
            {"OMPI_COMM_WORLD_LOCAL_RANK", number(rank)},
            {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
            {"PMIX_NAMESPACE", name}};
  });
}

TEST(rendezvous_process, they_meet_as_mpich_starts_them) {
  const auto name = "mpich-" + number(random_id());
  expect_meeting(3, "meet", [&](auto rank) -> settings {
    return {{"PMI_RANK", number(rank)},
            {"PMI_SIZE", "3"},
            {"MPI_LOCALRANKID", number(rank)},
            {"MPI_LOCALNRANKS", "3"},
            {"TROUPE_JOB_ID", name}};
  });
}

TEST(rendezvous_process, they_meet_as_slurm_starts_them) {
  const auto job = number(random_id() >> 40);
  expect_meeting(3, "meet", [&](auto rank) -> settings {
    return {{"SLURM_PROCID", number(rank)},
            {"SLURM_STEP_NUM_TASKS", "3"},
            {"SLURM_LOCALID", number(rank)},
            {"SLURM_STEP_NUM_NODES", "1"},
            {"SLURM_STEP_NODELIST", "node[07-08]"},
            {"SLURM_JOB_ID", job},
            {"SLURM_STEP_ID", "0"}};
  });
}

// Started by hand, by torchrun or MPI on one host: no secret was given.
settings without_secret(std::uint32_t rank, std::uint32_t size, const std::string& port,
                        const temporary_folder& runtime) {
  auto out = as_torchrun(rank, size, port);
  out.erase("TROUPE_JOB_SECRET");
  out["XDG_RUNTIME_DIR"] = runtime.path.string();
  return out;
}

bool is_empty_folder(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) && std::filesystem::is_empty(path);
}

TEST(rendezvous_process, four_meet_without_a_secret_from_outside) {
  temporary_folder runtime;
  const auto port = number(free_port());
  expect_meeting(4, "meet", [&](auto rank) { return without_secret(rank, 4, port, runtime); });
  EXPECT_TRUE(is_empty_folder(runtime.path / "troupe"));
}

TEST(rendezvous_process, four_meet_in_a_file_without_a_secret_from_outside) {
  temporary_folder folder;
  expect_meeting(4, "meet", [&](auto rank) {
    auto v = without_secret(rank, 4, "1", folder);
    v["METHOD"] = "file://" + (folder.path / "meet").string();
    return v;
  });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

// With the job's name and the user's number one could once compute the secret.
std::string computed_secret() {
  const auto text = "troupe default job secret 1\n" + number(geteuid()) + "\ndefault";
  std::array<unsigned char, job_secret::size> key;
  crypto_generichash(key.data(), key.size(), reinterpret_cast<const unsigned char*>(text.data()),
                     text.size(), nullptr, 0);
  std::string out;
  for (const auto byte : key) out += fmt::format("{:02x}", byte);
  return out;
}

TEST(rendezvous_process, nobody_takes_a_ranks_place_with_what_he_can_compute) {
  temporary_folder runtime;
  const auto port = number(free_port());
  std::vector<rank_process> ranks;
  for (const std::uint32_t rank : {0, 1})
    ranks.emplace_back("meet", without_secret(rank, 3, port, runtime));
  auto stranger = as_torchrun(2, 3, port);
  stranger["TROUPE_JOB_SECRET"] = computed_secret();
  const auto refused = rank_process("meet", stranger).finish();
  EXPECT_FALSE(refused.well());
  EXPECT_CONTAINS(refused.output, "it does not know this job's secret");
  ranks.emplace_back("meet", without_secret(2, 3, port, runtime));
  for (auto& one : ranks) EXPECT_TRUE(one.finish().well());
}

TEST(rendezvous_process, another_user_of_the_host_takes_no_ranks_place) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start processes of another user";
  temporary_folder runtime;
  const auto port = number(free_port());
  std::vector<rank_process> ranks;
  ranks.emplace_back("meet", without_secret(0, 2, port, runtime));
  auto stranger = without_secret(1, 2, port, runtime);
  stranger["AS_USER"] = "65534";
  const auto refused = rank_process("meet", stranger, 500).finish();
  EXPECT_FALSE(refused.well());
  EXPECT_CONTAINS(refused.output, "no rank 0 of user 65534 has left the job's secret on this host");
  ranks.emplace_back("meet", without_secret(1, 2, port, runtime));
  for (auto& one : ranks) EXPECT_TRUE(one.finish().well());
}

TEST(rendezvous_process, what_a_killed_job_has_left_does_not_matter) {
  temporary_folder runtime;
  const auto port = number(free_port());
  for (int i = 0; i < 3; ++i) {
    rank_process killed("die", without_secret(0, 2, port, runtime));
    rank_process other("meet", without_secret(1, 2, port, runtime), 1000);
    EXPECT_TRUE(WIFSIGNALED(killed.finish().status));
    EXPECT_FALSE(other.finish().well());
    EXPECT_FALSE(is_empty_folder(runtime.path / "troupe"));  // it could not clean up
  }
  expect_meeting(2, "meet", [&](auto rank) { return without_secret(rank, 2, port, runtime); });
  EXPECT_TRUE(is_empty_folder(runtime.path / "troupe"));
}

TEST(rendezvous_process, several_hosts_without_a_secret_learn_at_once_what_to_set) {
  for (const std::uint32_t rank : {0, 1}) {
    const auto refused = rank_process("meet", {{"RANK", number(rank)},
                                               {"WORLD_SIZE", "2"},
                                               {"MASTER_ADDR", "192.0.2.1"},
                                               {"MASTER_PORT", "29500"}})
                             .finish();
    EXPECT_FALSE(refused.well());
    EXPECT_CONTAINS(refused.output, "may span several hosts (rank 0 is at 192.0.2.1:29500)");
    EXPECT_CONTAINS(refused.output, "set TROUPE_JOB_SECRET to the same 64 hex digits");
    EXPECT_CONTAINS(refused.output, "TROUPE_JOB_SECRET_FILE");
  }
}

TEST(rendezvous_process, they_meet_with_a_secret_from_a_file) {
  temporary_folder folder;
  const auto path = (folder.path / "secret").string();
  std::ofstream(path) << job_secret().hex() << '\n';
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  const auto port = number(free_port());
  expect_meeting(3, "meet", [&](auto rank) {
    auto v = without_secret(rank, 3, port, folder);
    v["TROUPE_JOB_SECRET_FILE"] = path;
    return v;
  });
  EXPECT_FALSE(std::filesystem::exists(folder.path / "troupe"));
}

TEST(rendezvous_process, rank_0_killed_in_the_middle_is_reported_to_all) {
  const auto port = number(free_port());
  std::vector<rank_process> ranks;
  ranks.emplace_back("die", as_torchrun(0, 3, port));
  ranks.emplace_back("meet", as_torchrun(1, 3, port));
  ranks.emplace_back("meet", as_torchrun(2, 3, port));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(WIFSIGNALED(ranks[0].finish().status));
  for (const int rank : {1, 2}) {
    const auto e = ranks[rank].finish();
    EXPECT_FALSE(e.well());
    EXPECT_CONTAINS(e.output, "rendezvous error: rank " + std::to_string(rank) + " of 3: ");
    EXPECT_CONTAINS(e.output, "(in a job rank 0) has ended, crashed or cannot be reached");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, soon_enough);
}

TEST(rendezvous_process, a_rank_0_that_no_longer_answers_is_reported_in_time) {
  const auto port = number(free_port());
  std::vector<rank_process> ranks;
  ranks.emplace_back("freeze", as_torchrun(0, 3, port), 3000);
  ranks.emplace_back("meet", as_torchrun(1, 3, port), 3000);
  ranks.emplace_back("meet", as_torchrun(2, 3, port), 3000);
  const auto start = std::chrono::steady_clock::now();
  for (const int rank : {1, 2}) {
    const auto e = ranks[rank].finish();
    EXPECT_FALSE(e.well());
    EXPECT_CONTAINS(e.output, "(in a job rank 0) has ended, crashed or cannot be reached");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, soon_enough);
}

TEST(rendezvous_process, another_rank_killed_in_the_middle_is_named) {
  temporary_folder folder;
  std::vector<rank_process> ranks;
  for (const std::string& method :
       {std::string("env://"), "file://" + (folder.path / "f").string()}) {
    const auto port = number(free_port());
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      auto v = as_torchrun(rank, 3, port);
      v["METHOD"] = method;
      ranks.emplace_back(rank == 2 ? "die" : "meet", v, 4000);
    }
  }
  for (auto& r : ranks) {
    const auto e = r.finish();
    EXPECT_FALSE(e.well());
    EXPECT_TRUE(WIFSIGNALED(e.status) ||
                e.output == "rendezvous error: rank 2 of 3 came, but gave no address within 4 s\n")
        << e.output;
  }
}

TEST(rendezvous_process, a_file_that_a_killed_job_has_left_can_be_used_again) {
  temporary_folder folder;
  const auto run = [&](const char* mode) {
    return [&folder, mode](auto rank) {
      auto v = as_torchrun(rank, 3, "1");
      v["METHOD"] = "file://" + (folder.path / "meet").string();
      return std::pair(mode, v);
    };
  };
  {
    std::vector<rank_process> ranks;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      const auto [mode, v] = run("vanish")(rank);
      ranks.emplace_back(mode, v);
    }
    for (auto& r : ranks) EXPECT_TRUE(WIFSIGNALED(r.finish().status));
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path / "meet"));
  expect_meeting(3, "meet", [&](auto rank) { return run("meet")(rank).second; });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

}  // namespace
}  // namespace troupe::transport::test
