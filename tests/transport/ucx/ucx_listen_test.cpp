// Which sockets the UCX transport listens on.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "tests/transport/conformance/conformance_backend.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

// Inodes of this process' sockets.
std::set<std::string> own_sockets() {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry, gone).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

// Local addresses, as the kernel writes them, on which this process listens for TCP.
std::vector<std::string> listening() {
  const auto mine = own_sockets();
  std::vector<std::string> found;
  for (const char* file : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retries, user, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retries >> user >> timeout >>
          inode;
      if (state == "0A" && mine.contains(inode)) found.push_back(local);
    }
  }
  return found;
}

bool on_loopback(const std::string& local) {
  return local.starts_with("0100007F:") || local.starts_with("00000000000000000000000001000000:") ||
         local.starts_with("7F");
}

class ucx_listens : public testing::TestWithParam<tested_backend> {};
INSTANTIATE_TEST_SUITE_P(each, ucx_listens,
                         testing::Values(tested_backend::ucx, tested_backend::ucx_cma,
                                         tested_backend::ucx_shared_memory,
                                         tested_backend::ucx_tcp),
                         backend_name);

TEST_P(ucx_listens, on_nothing_outside_when_all_are_on_one_host) {
  job made(GetParam());
  auto a = made.make(0);
  auto b = made.make(1);
  a->net->add_peer(1, b->net->address());
  const auto found = listening();
  if (GetParam() == tested_backend::ucx_tcp)
    EXPECT_FALSE(found.empty());
  else
    EXPECT_TRUE(found.empty()) << found.front();
  for (const auto& local : found) EXPECT_TRUE(on_loopback(local)) << local;
}

TEST(ucx_listen, on_nothing_where_the_network_is_not_trusted) {
  recorder received;
  counting_pool pool;
  ucx_options options = options_of(tested_backend::ucx, 0);
  options.one_host = false;
  options.net_devices = "lo";
  options.settings = {{"TLS", "all"}, {"NET_DEVICES", "lo"}};
  const auto net = make_ucx_transport(options, received, pool);
  const auto found = listening();
  EXPECT_TRUE(found.empty()) << found.front();
}

TEST(ucx_listen, on_named_interfaces_alone) {
  recorder received;
  counting_pool pool;
  ucx_options options = options_of(tested_backend::ucx, 0);
  options.one_host = false;
  options.trusted_network = true;
  options.net_devices = "lo";
  const auto net = make_ucx_transport(options, received, pool);
  const auto found = listening();
  EXPECT_FALSE(found.empty());
  for (const auto& local : found) EXPECT_TRUE(on_loopback(local)) << local;
}

TEST(ucx_listen, settings_that_ucx_does_not_know_are_named) {
  recorder received;
  counting_pool pool;
  ucx_options options = options_of(tested_backend::ucx, 0);
  options.settings = {{"NO_SUCH_SETTING", "1"}};
  try {
    make_ucx_transport(options, received, pool);
    FAIL() << "no error";
  } catch (const transport_error& e) {
    EXPECT_NE(std::string(e.what()).find("NO_SUCH_SETTING"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace troupe::transport::test
