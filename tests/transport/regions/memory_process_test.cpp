// Memory of one process, mapped by others.

#include <gtest/gtest.h>

#include "tests/transport/regions/memory_fixture.hpp"
#include "tests/transport/regions/memory_process.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

struct memory_process_owner {
  explicit memory_process_owner(const job_secret& secret, std::vector<std::string> more = {})
      : process([&] {
          std::vector<std::string> words{"serve", secret.hex()};
          words.insert(words.end(), more.begin(), more.end());
          return words;
        }()) {
    from_hex(process.line_of(), std::as_writable_bytes(std::span(&address, 1)));
  }

  memory_process process;
  region_address address;
};

TEST(memory_process, owner_is_seen_by_others) {
  const job_secret secret;
  memory_process_owner owner(secret);
  memory_process other({"fetch", secret.hex(), to_hex(bytes_of(owner.address))});
  const auto region = fetch_region(owner.address, secret, soon());
  EXPECT_EQ(other.ask(""), "0000");
  EXPECT_EQ(owner.process.ask("5a"), "written");
  EXPECT_EQ(region->data()[region->size() / 2], std::byte{0x5a});
  EXPECT_EQ(other.ask(""), "5a5a");
  EXPECT_EQ(owner.process.ask("01"), "written");
  EXPECT_EQ(region->data()[0], std::byte{1});
  EXPECT_EQ(other.ask(""), "0101");
  // Killed: its memory stays with those who have it, and nobody else gets it.
  owner.process.kill();
  EXPECT_EQ(other.ask(""), "0101");
  EXPECT_EQ(region->data()[0], std::byte{1});
  memory_process late({"fetch", secret.hex(), to_hex(bytes_of(owner.address))});
  EXPECT_NE(late.line_of().find("nobody listens"), std::string::npos);
}

TEST(memory_process, of_another_job_gets_nothing) {
  const job_secret secret;
  served_memory owner(secret);
  memory_process other({"fetch", job_secret().hex(), to_hex(bytes_of(owner.server.address()))});
  EXPECT_NE(other.line_of().find("does not have the job's secret"), std::string::npos);
  EXPECT_EQ(owner.server.counts().served, 0u);
}

TEST(memory_process, that_is_stopped_ends_a_fetch_in_time) {
  const job_secret secret;
  memory_process_owner owner(secret);
  owner.process.stop();
  const same_descriptors descriptors;
  const auto begin = std::chrono::steady_clock::now();
  const auto why = error_of_call([&] { fetch_region(owner.address, secret, soon(150ms)); });
  EXPECT_NE(why.find("did not answer in time"), why.npos) << why;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  EXPECT_TRUE(descriptors.now());
  owner.process.signal(SIGCONT);
  EXPECT_TRUE(fetch_region(owner.address, secret, soon()));
}

TEST(memory_process, killed_during_a_fetch_ends_it) {
  const job_secret secret;
  memory_process_owner owner(secret);
  owner.process.stop();
  const same_descriptors descriptors;
  std::thread killer([&] {
    std::this_thread::sleep_for(50ms);
    owner.process.signal(SIGKILL);
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto why = error_of_call([&] { fetch_region(owner.address, secret, soon(20s)); });
  killer.join();
  EXPECT_NE(why.find("nobody listens"), why.npos) << why;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  EXPECT_TRUE(descriptors.now());
}

TEST(memory_process, that_can_open_no_more_says_so) {
  const job_secret secret;
  memory_process_owner owner(secret);
  const same_descriptors descriptors;
  for (const std::size_t left : {0u, 1u}) {  // for the socket, and then for what comes through it
    const few_descriptors few(left);
    const auto why = error_of_call([&] { fetch_region(owner.address, secret, soon()); });
    EXPECT_NE(why.find(left == 0 ? "connecting" : "could not be received"), why.npos) << why;
    EXPECT_NE(why.find("(ulimit -n)"), why.npos) << why;
  }
  EXPECT_TRUE(descriptors.now());
  EXPECT_TRUE(fetch_region(owner.address, secret, soon()));
}

TEST(memory_process, of_another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can start a process of another user";
  const job_secret secret;
  memory_process_owner owner(secret, {"65534"});
  const same_descriptors descriptors;
  const auto why = error_of_call([&] { fetch_region(owner.address, secret, soon()); });
  EXPECT_NE(why.find("belongs to user 65534, not 0"), why.npos) << why;
  EXPECT_TRUE(descriptors.now());
}

}  // namespace
}  // namespace troupe::transport::test
