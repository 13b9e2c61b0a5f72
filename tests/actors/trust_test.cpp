// What a job may do on a network that nobody has called trusted.

#include "tests/actors/job.hpp"
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
    options.init_timeout = patience;
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

TEST_F(trust, is_needed_for_tcp) {
  auto options = founder(1);
  options.transport = backend::tcp;
  const auto why = refusal<transport_error>(options);
  EXPECT_THAT(why, testing::HasSubstr("rpc_options::trusted_network"));
  EXPECT_THAT(why, testing::HasSubstr("TROUPE_TRUSTED_NETWORK=1"));
  options.trusted_network = true;
  EXPECT_EQ(refusal<error>(options), "");
}

TEST_F(trust, can_come_from_the_environment) {
  auto options = founder(1);
  options.transport = backend::tcp;
  setenv("TROUPE_TRUSTED_NETWORK", "0", 1);
  EXPECT_NE(refusal<transport_error>(options), "");
  setenv("TROUPE_TRUSTED_NETWORK", "yes", 1);
  EXPECT_THAT(refusal<rendezvous_error>(options),
              testing::HasSubstr("TROUPE_TRUSTED_NETWORK is 'yes'"));
  setenv("TROUPE_TRUSTED_NETWORK", "1", 1);
  EXPECT_EQ(refusal<error>(options), "");
}

TEST_F(trust, is_needed_for_ranks_on_several_hosts) {
  const auto options = founder(2);
  setenv("TROUPE_HOST_ID", "elsewhere", 1);
  rank_process other(
      {TROUPE_TEST_PROGRAM_DIR "/rank_program", "1", "2", (folder_.path() / "meet").string()});
  unsetenv("TROUPE_HOST_ID");
  const auto why = refusal<transport_error>(options);
  EXPECT_THAT(why, testing::HasSubstr("rank 0 runs on "));
  EXPECT_THAT(why, testing::HasSubstr(", rank 1 on "));
  EXPECT_THAT(why, testing::HasSubstr("TROUPE_TRUSTED_NETWORK=1"));
  EXPECT_TRUE(eventually([&] { return other.ended(); }));
  EXPECT_EQ(other.exit_code(), 1);
}

}  // namespace

}  // namespace troupe::test
