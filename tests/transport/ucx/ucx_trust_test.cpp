// What of UCX a node may use, and what it refuses.

#include <gtest/gtest.h>

#include "tests/transport/conformance/conformance_backend.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/ucx/permitted.hpp"

namespace troupe::transport::test {
namespace {

using ucx::permitted_transports;

std::string refusal(ucx_options options) {
  recorder received;
  counting_pool pool;
  try {
    make_ucx_transport(std::move(options), received, pool);
  } catch (const transport_error& e) {
    return e.what();
  }
  return "";
}

TEST(ucx_trust, tcp_is_refused_without_it) {
  ucx_options options = options_of(tested_backend::ucx_tcp, 0);
  EXPECT_EQ(refusal(options), "");
  options.trusted_network = false;
  const auto why = refusal(options);
  EXPECT_NE(why.find("without the job's secret"), why.npos) << why;
  EXPECT_NE(why.find("rpc_options::trusted_network"), why.npos) << why;
  EXPECT_NE(why.find("TROUPE_TRUSTED_NETWORK=1"), why.npos) << why;
}

TEST(ucx_trust, a_setting_for_tcp_alone_is_refused_without_it) {
  ucx_options options = options_of(tested_backend::ucx, 0);
  options.settings = {{"TLS", "tcp"}};
  const auto why = refusal(options);
  EXPECT_NE(why.find("TROUPE_TRUSTED_NETWORK=1"), why.npos) << why;
}

TEST(ucx_trust, decides_about_the_network) {
  ucx_options options;
  options.one_host = false;
  EXPECT_FALSE(ucx::uses_network(options));
  options.trusted_network = true;
  EXPECT_TRUE(ucx::uses_network(options));
  options.kind = ucx_kind::shared_memory;
  EXPECT_FALSE(ucx::uses_network(options));
  options.kind = ucx_kind::automatic;
  options.one_host = true;
  EXPECT_FALSE(ucx::uses_network(options));
  options.kind = ucx_kind::tcp;
  EXPECT_TRUE(ucx::uses_network(options));
}

TEST(ucx_trust, leaves_segments_of_system_v_out_whatever_is_asked_for) {
  ucx_options options;
  for (const bool trusted : {false, true}) {
    options.trusted_network = trusted;
    for (const char* wanted : {"", "all", "^cma", "^sysv"}) {
      const auto list = permitted_transports(options, wanted);
      EXPECT_TRUE(list.starts_with('^')) << list;
      EXPECT_NE(list.find("sysv"), list.npos) << list;
      EXPECT_EQ(list.find("sysv"), list.rfind("sysv")) << list;
    }
    EXPECT_EQ(permitted_transports(options, "sysv,posix,cma"), "posix,cma");
    EXPECT_EQ(permitted_transports(options, "sm"), "posix,xpmem,knem,cma");
    // As UCX writes them too, and as patterns and lists of all.
    for (const char* wanted : {"sysv", "\\sysv", "sysv:aux", "\\sysv:aux", "s?sv", "*", "all,all"})
      EXPECT_THROW(permitted_transports(options, wanted), transport_error) << wanted;
    EXPECT_EQ(permitted_transports(options, "\\sysv,\\posix,sysv:aux,cma:aux"), "\\posix,cma:aux");
    EXPECT_EQ(permitted_transports(options, "\\mm"), "posix,xpmem");
  }
}

TEST(ucx_trust, leaves_networks_out_where_it_is_lacking) {
  ucx_options options;
  EXPECT_EQ(permitted_transports(options, "tcp,posix,rc_x,cma"), "posix,cma");
  EXPECT_EQ(permitted_transports(options, "^cma"), "^cma,sysv,tcp,ib,gga");
  EXPECT_THROW(permitted_transports(options, "tcp,rc"), transport_error);
  options.trusted_network = true;
  EXPECT_EQ(permitted_transports(options, "tcp,posix,rc_x,cma"), "tcp,posix,rc_x,cma");
  EXPECT_EQ(permitted_transports(options, "ud:aux,\\rc_mlx5,sysv"), "ud:aux,\\rc_mlx5");
  EXPECT_EQ(permitted_transports(options), "^sysv");
}

TEST(ucx_trust, rdma_never_opens_a_port_of_tcp) {
  ucx_options options;
  options.kind = ucx_kind::rdma;
  EXPECT_FALSE(ucx::uses_network(options));
  EXPECT_EQ(permitted_transports(options), "^sysv,tcp,ib,gga");
  options.trusted_network = true;
  EXPECT_TRUE(ucx::uses_network(options));
  EXPECT_EQ(permitted_transports(options), "^sysv,tcp");
  EXPECT_EQ(permitted_transports(options, "tcp,posix,rc_x,tcp:aux"), "posix,rc_x");
  EXPECT_THROW(permitted_transports(options, "tcp"), transport_error);
}

}  // namespace
}  // namespace troupe::transport::test
