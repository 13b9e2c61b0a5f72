#include "troupe/transport/rendezvous/environment.hpp"

#include <gtest/gtest.h>

#include <map>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport {
namespace {

using variables = std::map<std::string, std::string>;

environment from(variables values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const rendezvous_error& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(environment, reads_the_launcher_of_torch) {
  const auto place = read_job_place(
      from({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}}));
  EXPECT_EQ(place.rank, 5u);
  EXPECT_EQ(place.world_size, 8u);
  EXPECT_EQ(place.local_rank, 1u);
  EXPECT_EQ(place.local_world_size, 4u);
  EXPECT_FALSE(place.all_local);
}

TEST(environment, says_how_tensors_are_lent) {
  const auto usual = read_lending(from({}));
  EXPECT_FALSE(usual.lend);
  EXPECT_FALSE(usual.strictly);
  EXPECT_EQ(usual.from, 16u << 10);
  EXPECT_EQ(usual.copies_from, 64u << 10);
  const auto other = read_lending(from({{"TROUPE_LEND_TENSORS", "1"},
                                        {"TROUPE_LEND_STRICTLY", "1"},
                                        {"TROUPE_LEND_FROM", "1048576"},
                                        {"TROUPE_LEND_COPIES_FROM", "4294967295"}}));
  EXPECT_TRUE(other.lend);
  EXPECT_TRUE(other.strictly);
  EXPECT_EQ(other.from, 1u << 20);
  EXPECT_EQ(other.copies_from, 0xffffffffu);
  for (const auto& wrong : {variables{{"TROUPE_LEND_TENSORS", "yes"}},
                            {{"TROUPE_LEND_STRICTLY", "2"}},
                            {{"TROUPE_LEND_FROM", "16383"}},
                            {{"TROUPE_LEND_FROM", "16k"}},
                            {{"TROUPE_LEND_COPIES_FROM", "4294967296"}}})
    EXPECT_NE(refusal([&] { read_lending(from(wrong)); }).find(wrong.begin()->first),
              std::string::npos);
}

TEST(environment, reads_open_mpi_before_the_slurm_job_it_runs_in) {
  const auto env = from({{"OMPI_COMM_WORLD_RANK", "3"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"PMIX_RANK", "3"},
                         {"PMIX_NAMESPACE", "prterun-host-77@1"},
                         {"SLURM_PROCID", "0"},
                         {"SLURM_NTASKS", "1"},
                         {"SLURM_JOB_ID", "12"}});
  const auto place = read_job_place(env);
  EXPECT_EQ(place.launcher, "Open MPI");
  EXPECT_EQ(place.rank, 3u);
  EXPECT_EQ(place.local_rank, 3u);
  EXPECT_TRUE(place.all_local);
  const auto job = read_job_name(env);
  EXPECT_EQ(job, "prterun-host-77@1");
  const auto master = read_master(env, place, job);
  EXPECT_EQ(master.host, "127.0.0.1");
  EXPECT_EQ(master.port, derived_port(job));
}

TEST(environment, reads_mpich) {
  const auto place = read_job_place(from(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}}));
  EXPECT_EQ(place.launcher, "MPICH");
  EXPECT_EQ(place.rank, 1u);
  EXPECT_EQ(place.world_size, 2u);
  EXPECT_TRUE(place.all_local);
}

TEST(environment, reads_pmix_with_a_world_size) {
  const auto place = read_job_place(from({{"PMIX_RANK", "2"}, {"WORLD_SIZE", "3"}}));
  EXPECT_EQ(place.rank, 2u);
  EXPECT_EQ(place.world_size, 3u);
}

TEST(environment, reads_slurm_over_several_nodes) {
  const auto env = from({{"SLURM_PROCID", "6"},
                         {"SLURM_STEP_NUM_TASKS", "8"},
                         {"SLURM_NTASKS", "16"},
                         {"SLURM_LOCALID", "2"},
                         {"SLURM_STEP_NUM_NODES", "2"},
                         {"SLURM_JOB_ID", "4711"},
                         {"SLURM_STEP_ID", "3"},
                         {"SLURM_STEP_NODELIST", "gpu[07-08]"},
                         {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.250"}});
  const auto place = read_job_place(env);
  EXPECT_EQ(place.launcher, "Slurm");
  EXPECT_EQ(place.rank, 6u);
  EXPECT_EQ(place.world_size, 8u);
  EXPECT_EQ(place.local_rank, 2u);
  EXPECT_FALSE(place.all_local);
  const auto job = read_job_name(env);
  EXPECT_EQ(job, "4711.3");
  const auto master = read_master(env, place, job);
  EXPECT_EQ(master.host, "gpu07");
  EXPECT_EQ(master.port, derived_port("4711.3"));
}

TEST(environment, reads_slurm_on_one_node) {
  const auto env =
      from({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_NODES", "1"}});
  const auto place = read_job_place(env);
  EXPECT_TRUE(place.all_local);
  EXPECT_EQ(place.local_world_size, 4u);
  EXPECT_EQ(read_master(env, place, "x").host, "127.0.0.1");
}

TEST(environment, takes_the_launching_node_where_slurm_gives_no_list) {
  const auto env = from(
      {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LAUNCH_NODE_IPADDR", "10.1.2.3"}});
  EXPECT_EQ(read_master(env, read_job_place(env), "x").host, "10.1.2.3");
}

TEST(environment, MASTER_ADDR_and_MASTER_PORT_win) {
  const auto env = from({{"SLURM_PROCID", "0"},
                         {"SLURM_NTASKS", "4"},
                         {"SLURM_STEP_NODELIST", "a[1-4]"},
                         {"MASTER_ADDR", "head"},
                         {"MASTER_PORT", "29500"}});
  const auto master = read_master(env, read_job_place(env), "x");
  EXPECT_EQ(master.host, "head");
  EXPECT_EQ(master.port, 29500);
}

TEST(environment, a_single_rank_needs_no_address) {
  const auto env = from({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  const auto master = read_master(env, read_job_place(env), "x");
  EXPECT_EQ(master.host, "127.0.0.1");
  EXPECT_EQ(master.port, 0);
}

TEST(environment, names_what_is_missing) {
  EXPECT_EQ(refusal([] { throw_missing_rank(read_job_place(from({}))); }),
            "environment variable RANK expected, but not set: start the program with troupe-run, "
            "srun or mpirun, or set RANK to this process's rank and WORLD_SIZE to the number of "
            "ranks");
  EXPECT_EQ(refusal([] {
              throw_missing_rank(read_job_place(from({{"RANK", "3"}})));
            }),
            "environment variable WORLD_SIZE expected, but not set: this is rank 3, so set "
            "WORLD_SIZE to the number of ranks");
  EXPECT_EQ(refusal([] {
              throw_missing_rank(read_job_place(from({{"PMI_RANK", "3"}})));
            }),
            "environment variable PMI_SIZE expected, but not set: this is rank 3, so set PMI_SIZE "
            "to the number of ranks");
  const auto env = from({{"RANK", "3"}, {"WORLD_SIZE", "4"}});
  EXPECT_NE(refusal([&] { read_master(env, read_job_place(env), "x"); })
                .find("environment variable MASTER_ADDR expected, but not set: set it to the "
                      "address of the host that rank 0 runs on"),
            std::string::npos);
}

TEST(environment, names_what_is_malformed) {
  const auto place = [](variables v) { return refusal([&] { read_job_place(from(v)); }); };
  EXPECT_EQ(place({{"RANK", "three"}, {"WORLD_SIZE", "4"}}),
            "environment variable RANK is 'three', but must be a whole number from 0 to 1048575: "
            "the rank of this process");
  for (const char* bad : {"-1", "1.5", " 1", "1 ", "0x1", "99999999999999999999", "1048576"})
    EXPECT_NE(place({{"RANK", bad}, {"WORLD_SIZE", "4"}}).find("variable RANK is '"),
              std::string::npos);
  EXPECT_NE(place({{"RANK", "0"}, {"WORLD_SIZE", "0"}}).find("variable WORLD_SIZE is '0'"),
            std::string::npos);
  EXPECT_EQ(place({{"RANK", "4"}, {"WORLD_SIZE", "4"}}),
            "environment variable RANK is 4, but WORLD_SIZE is 4: ranks go from 0 to 3");
  EXPECT_NE(place({{"OMPI_COMM_WORLD_RANK", "0"},
                   {"OMPI_COMM_WORLD_SIZE", "2"},
                   {"OMPI_COMM_WORLD_LOCAL_RANK", "x"}})
                .find("OMPI_COMM_WORLD_LOCAL_RANK is 'x'"),
            std::string::npos);
  // Nobody could know the port that rank 0 gets for 0.
  for (const std::string port : {"65536", "0"}) {
    const auto env =
        from({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", port}});
    EXPECT_NE(refusal([&] {
                read_master(env, read_job_place(env), "x");
              }).find("MASTER_PORT is '" + port + "', but must be a whole number from 1 to 65535"),
              std::string::npos);
  }
}

TEST(environment, names_jobs) {
  EXPECT_EQ(read_job_name(from({})), "default");
  EXPECT_EQ(read_job_name(from({{"TROUPE_JOB_ID", "mine"}, {"SLURM_JOB_ID", "1"}})), "mine");
  EXPECT_EQ(read_job_name(from({{"SLURM_JOBID", "1"}})), "1");
  EXPECT_EQ(read_job_name(from({{"RANK", "0"}, {"TORCHELASTIC_RUN_ID", "run"}})), "run");
}

TEST(environment, derives_ports_below_the_ephemeral_ones) {
  for (int i = 0; i < 1000; ++i) {
    const auto port = derived_port(std::to_string(i));
    EXPECT_GE(port, 20000);
    EXPECT_LT(port, 32000);
  }
  EXPECT_NE(derived_port("1"), derived_port("2"));
  // Fixed for ever: ranks of different builds must agree.
  EXPECT_EQ(derived_port("default"), derived_port("default"));
}

TEST(environment, reads_the_secret) {
  const job_secret secret;
  const auto given = read_job_secret(from({{"TROUPE_JOB_SECRET", secret.hex()}}));
  ASSERT_TRUE(given);
  EXPECT_TRUE(given->secret == secret);
  EXPECT_EQ(given->whence, "TROUPE_JOB_SECRET");
  EXPECT_FALSE(read_job_secret(from({})));  // and nothing is made up from what others know
  const auto message = refusal([] { read_job_secret(from({{"TROUPE_JOB_SECRET", "secret!"}})); });
  EXPECT_NE(message.find("TROUPE_JOB_SECRET cannot be used"), std::string::npos);
  EXPECT_EQ(message.find("secret!"), std::string::npos);
  EXPECT_NE(refusal([] {
              read_job_secret(from({{"TROUPE_JOB_SECRET_FILE", "/no/such/file"}}));
            })
                .find("TROUPE_JOB_SECRET_FILE cannot be used: the file of the job's secret, "
                      "/no/such/file"),
            std::string::npos);
}

TEST(environment, an_empty_variable_of_the_process_is_none) {
  const auto env = process_environment();
  EXPECT_TRUE(env("PATH"));
  EXPECT_FALSE(env("TROUPE_NO_SUCH_VARIABLE"));
}

using hosts = std::vector<std::string>;

TEST(slurm_hosts, reads_lists) {
  EXPECT_EQ(slurm_hosts("node"), hosts{"node"});
  EXPECT_EQ(slurm_hosts("a,b.cluster,c-1"), (hosts{"a", "b.cluster", "c-1"}));
  EXPECT_EQ(slurm_hosts("node[01-03,07]"), (hosts{"node01", "node02", "node03", "node07"}));
  EXPECT_EQ(slurm_hosts("node[9-11]x,login"), (hosts{"node9x", "node10x", "node11x", "login"}));
  EXPECT_EQ(slurm_hosts("r[1-2]n[08-09]"), (hosts{"r1n08", "r1n09", "r2n08", "r2n09"}));
  EXPECT_EQ(slurm_hosts("gpu[007]"), hosts{"gpu007"});
  EXPECT_EQ(first_slurm_host("node[01-03,07],login"), "node01");
  EXPECT_EQ(first_slurm_host("tux[0-99999]"), "tux0");
}

TEST(slurm_hosts, is_bounded) {
  EXPECT_EQ(slurm_hosts("n[0-999999999]", 100).size(), 100u);
  EXPECT_EQ(slurm_hosts("a[0-99999]b[0-99999]", 100).size(), 100u);
}

TEST(slurm_hosts, refuses_what_is_no_list) {
  for (const char* bad :
       {"", ",", "a,", ",a", "a,,b", "node[", "node[]", "node[1", "node[1-]", "node[3-1]",
        "node[1;2]", "node]", "no de", "node[[1]]", "a[1-2", "a[1234567890]", "a\nb"})
    EXPECT_NE(refusal([&] { slurm_hosts(bad); }).find("is not a node list of Slurm"),
              std::string::npos)
        << bad;
}

}  // namespace
}  // namespace troupe::transport
