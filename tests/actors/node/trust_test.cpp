// What a job may do on a network that nobody has called trusted: all but to open ports of UCX.

#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "tests/actors/node/job.hpp"
#include "tests/actors/node/open_things.hpp"
#include "tests/actors/node/rank_functions.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {

namespace {

class trust : public testing::Test {
protected:
  ~trust() override { unsetenv("TROUPE_TRUSTED_NETWORK"); }

  rpc_options founder(std::uint32_t world_size) const {
    rpc_options options;
    options.rank = 0;
    options.world_size = world_size;
    options.init_method = "file://" + (folder_.path() / "meet").string();
    options.init_timeout = time_limit;
    return options;
  }

  template <class Error>
  static std::string refusal(const rpc_options& options) {
    try {
      init_rpc(options).shutdown();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  temporary_folder folder_;
};

TEST_F(trust, is_needed_for_tcp_of_ucx) {
  auto options = founder(1);
  options.transport = backend::ucx_tcp;
  const auto why = refusal<transport_error>(options);
  EXPECT_THAT(why, testing::HasSubstr("rpc_options::trusted_network"));
  EXPECT_THAT(why, testing::HasSubstr("TROUPE_TRUSTED_NETWORK=1"));
  options.trusted_network = true;
  EXPECT_EQ(refusal<error>(options), "");
}

TEST_F(trust, can_come_from_the_environment) {
  auto options = founder(1);
  options.transport = backend::ucx_tcp;
  setenv("TROUPE_TRUSTED_NETWORK", "0", 1);
  EXPECT_NE(refusal<transport_error>(options), "");
  setenv("TROUPE_TRUSTED_NETWORK", "yes", 1);
  EXPECT_THAT(refusal<rendezvous_error>(options),
              testing::HasSubstr("TROUPE_TRUSTED_NETWORK is 'yes'"));
  setenv("TROUPE_TRUSTED_NETWORK", "1", 1);
  EXPECT_EQ(refusal<error>(options), "");
}

TEST_F(trust, is_needed_for_ucx_on_several_hosts) {
  auto options = founder(2);
  options.transport = backend::ucx;
  setenv("TROUPE_HOST_ID", "elsewhere", 1);
  rank_process other({TROUPE_TEST_PROGRAM_DIR "/rank_program", "1", "2",
                      (folder_.path() / "meet").string(), "ucx"});
  unsetenv("TROUPE_HOST_ID");
  const auto why = refusal<transport_error>(options);
  EXPECT_THAT(why, testing::HasSubstr("rank 0 runs on "));
  EXPECT_THAT(why, testing::HasSubstr(", rank 1 on "));
  EXPECT_THAT(why, testing::HasSubstr("Use backend::automatic or backend::tcp"));
  EXPECT_THAT(why, testing::HasSubstr("TROUPE_TRUSTED_NETWORK=1"));
  EXPECT_TRUE(eventually([&] { return other.ended(); }));
  EXPECT_EQ(other.exit_code(), 1);
}

// As the containers of a pod are: they share the host and its network.
class trust_across_process_namespaces : public trust {
protected:
  void SetUp() override {
    if (std::system("unshare --fork --pid --mount-proc true 2>/dev/null") != 0)
      GTEST_SKIP() << "this user may not make a process namespace (unshare --pid)";
  }

  std::unique_ptr<rank_process> start(const std::string& rank, const std::string& how = "") const {
    return std::make_unique<rank_process>(
        std::vector<std::string>{"unshare", "--fork", "--pid", "--mount-proc", "--kill-child",
                                 TROUPE_TEST_PROGRAM_DIR "/rank_program", rank, "2",
                                 (folder_.path() / "meet").string(), how});
  }
};

TEST_F(trust_across_process_namespaces, is_needed_for_ucx) {
  const auto other = start("1", "ucx");
  auto options = founder(2);
  options.transport = backend::ucx;
  const auto why = refusal<transport_error>(options);
  EXPECT_THAT(why, testing::HasSubstr("rank 0 and rank 1 run on "));
  EXPECT_THAT(why, testing::HasSubstr(" in two process namespaces, pid:["));
  EXPECT_THAT(why, testing::HasSubstr("TROUPE_TRUSTED_NETWORK=1"));
  EXPECT_TRUE(eventually([&] { return other->ended(); }));
  EXPECT_EQ(other->exit_code(), 1);
}

TEST_F(trust_across_process_namespaces, is_not_needed_for_tcp_on_the_loopback_interface) {
  const auto other = start("1");
  const auto node = init_rpc(founder(2));
  EXPECT_EQ(node.rpc_sync<&plus_one>(1, 41), 42);
  for (const auto& route : node.routes())
    if (route.peer == 1) {
      EXPECT_THAT(route.lanes, testing::StartsWith("tcp/lo to 127.0.0.1:"));
      EXPECT_THAT(route.reason,
                  testing::StartsWith("it is in another process namespace of this host, and "));
    }
  const auto ports = listening_of(getpid());
  EXPECT_FALSE(ports.empty());
  for (const auto& one : ports) EXPECT_TRUE(is_loopback(one.first));
  node.shutdown(true, time_limit);
  EXPECT_TRUE(eventually([&] { return other->ended(); }));
  EXPECT_TRUE(other->ended_well());
}

}  // namespace

}  // namespace troupe::test
