// Memory that one process hands to others, seen from within one process.

#include "troupe/transport/regions/mapped_region.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/forking.hpp"
#include "tests/transport/regions/memory_fixture.hpp"

namespace troupe::transport::test {
namespace {

// As /proc/self/maps shows it.
int mapped_test_mappings(const void* at) {
  std::ifstream maps("/proc/self/maps");
  char begin[32];
  std::snprintf(begin, sizeof begin, "%lx-", reinterpret_cast<unsigned long>(at));
  int found = 0;
  for (std::string line; std::getline(maps, line);) found += line.starts_with(begin);
  return found;
}

TEST(mapped_region, shows_what_its_owner_writes_later) {
  const job_secret secret;
  served_memory owner(secret);
  const same_descriptors descriptors;
  const auto region = fetch_region(owner.server.address(), secret, soon());
  ASSERT_EQ(region->size(), owner.memory.size());
  EXPECT_EQ(region->id(), owner.memory.id());
  EXPECT_NE(region->data(), owner.memory.data());
  EXPECT_EQ(region->data()[100], std::byte{0});
  owner.memory.data()[100] = std::byte{42};
  EXPECT_EQ(region->data()[100], std::byte{42});
  EXPECT_TRUE(region->contains(region->data()));
  EXPECT_TRUE(region->contains(region->data() + region->size() - 1));
  EXPECT_FALSE(region->contains(region->data() + region->size()));
  EXPECT_FALSE(region->contains(region->data() - 1));
  EXPECT_TRUE(comes_true([&] { return owner.server.counts().served == 1; }));
  EXPECT_EQ(owner.server.counts().refused(), 0u);
  EXPECT_TRUE(descriptors.now());
}

TEST(mapped_region, cannot_be_made_writable) {
  const job_secret secret;
  served_memory owner(secret);
  const auto region = fetch_region(owner.server.address(), secret, soon());
  auto* const at = const_cast<std::byte*>(region->data());
  EXPECT_EQ(mprotect(at, region->size(), PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(errno, EACCES);
}

TEST(mapped_region, is_written_where_it_was_fetched_for_that) {
  const job_secret secret;
  writable_memory owner(secret);
  const auto region = fetch_region(owner.server.address(), secret, soon(), region_access::write);
  ASSERT_NE(region->writable(), nullptr);
  region->writable()[17] = std::byte{42};
  EXPECT_EQ(owner.memory.data()[17], std::byte{42});
  // Beside it, the same memory can be mapped for reading only.
  const auto read_only = fetch_region(owner.server.address(), secret, soon());
  EXPECT_NE(read_only, region);
  EXPECT_EQ(read_only->writable(), nullptr);
  EXPECT_EQ(read_only->data()[17], std::byte{42});
  EXPECT_EQ(fetch_region(owner.server.address(), secret, soon(), region_access::write), region);
}

TEST(mapped_region, is_mapped_once_and_unmapped_when_dropped) {
  const job_secret secret;
  served_memory owner(secret);
  auto region = fetch_region(owner.server.address(), secret, soon());
  EXPECT_EQ(fetch_region(owner.server.address(), secret, soon()), region);
  EXPECT_TRUE(comes_true([&] { return owner.server.counts().served == 1; }));
  const void* const at = region->data();
  EXPECT_EQ(mapped_test_mappings(at), 1);
  region.reset();
  EXPECT_EQ(mapped_test_mappings(at), 0);
  region = fetch_region(owner.server.address(), secret, soon());
  EXPECT_TRUE(comes_true([&] { return owner.server.counts().served == 2; }));
}

TEST(mapped_region, is_one_for_threads_that_ask_at_once) {
  const job_secret secret;
  served_memory owner(secret);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<const mapped_region>> got(4);
    std::vector<std::thread> threads;
    for (auto& one : got)
      threads.emplace_back([&] { one = fetch_region(owner.server.address(), secret, soon()); });
    for (auto& one : threads) one.join();
    for (const auto& one : got) EXPECT_EQ(one, got[0]);
  }
}

TEST(mapped_region, outlives_its_server) {
  const job_secret secret;
  std::shared_ptr<const mapped_region> region;
  {
    served_memory owner(secret);
    owner.memory.data()[0] = std::byte{7};
    region = fetch_region(owner.server.address(), secret, soon());
  }
  EXPECT_EQ(region->data()[0], std::byte{7});
}

TEST(mapped_region, is_refused_under_the_id_of_another) {
  const job_secret secret;
  served_memory owner(secret);
  const auto region = fetch_region(owner.server.address(), secret, soon());
  test_memory other;
  const descriptor_server server(other.open_again(), other.size(), owner.memory.id(), secret);
  const auto why = error_of_call([&] { fetch_region(server.address(), secret, soon()); });
  EXPECT_NE(why.find("other memory"), why.npos) << why;
}

// A process with two nodes: each hands the same memory out.
TEST(mapped_region, is_mapped_once_whoever_hands_it_out) {
  const job_secret secret, of_second;
  served_memory owner(secret);
  const descriptor_server second(owner.memory.open_again(), owner.memory.size(), owner.memory.id(),
                                 of_second);
  const auto region = fetch_region(owner.server.address(), secret, soon());
  EXPECT_EQ(fetch_region(second.address(), of_second, soon()), region);
  EXPECT_NE(error_of_call([&] { fetch_region(second.address(), secret, soon()); }), "");
}

TEST(mapped_region, refuses_damaged_addresses) {
  const job_secret secret;
  served_memory owner(secret);
  const same_descriptors descriptors;
  auto address = owner.server.address();
  address.socket_name[3] = '/';
  auto why = error_of_call([&] { fetch_region(address, secret, soon()); });
  EXPECT_NE(why.find("damaged"), why.npos) << why;
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    address = owner.server.address();
    address.size = size;  // the server proves another
    why = error_of_call([&] { fetch_region(address, secret, soon()); });
    EXPECT_NE(why.find("proof"), why.npos) << why;
  }
  address = owner.server.address();
  address.id[0] ^= std::byte{1};
  why = error_of_call([&] { fetch_region(address, secret, soon()); });
  EXPECT_NE(why.find("not served here"), why.npos) << why;
  EXPECT_TRUE(descriptors.now());
}

TEST(mapped_region, is_not_in_forked_processes) {
  const job_secret secret;
  served_memory owner(secret);
  auto region = fetch_region(owner.server.address(), secret, soon());
  const auto status = troupe::test::in_child([&] {
    if (mapped_test_mappings(region->data()) != 0) return 1;
    // What lies there now is the child's.
    auto* const at = const_cast<std::byte*>(region->data());
    if (mmap(at, region->size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
             -1, 0) != at)
      return 2;
    region.reset();
    at[0] = std::byte{1};
    // It can have one of its own.
    const auto again = fetch_region(owner.server.address(), secret, soon());
    return again->size() == owner.memory.size() ? 0 : 3;
  });
  EXPECT_EQ(status, 0);
}

TEST(mapped_region, is_not_served_by_forked_processes) {
  const job_secret secret;
  auto owner = std::make_unique<served_memory>(secret);
  const auto address = owner->server.address();
  const troupe::test::idle_child child;
  owner.reset();
  const auto begin = std::chrono::steady_clock::now();
  const auto why = error_of_call([&] { fetch_region(address, secret, soon()); });
  EXPECT_NE(why.find("nobody listens"), why.npos) << why;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST(mapped_region, server_can_be_destroyed_in_forked_processes) {
  const job_secret secret;
  auto owner = std::make_unique<served_memory>(secret);
  EXPECT_EQ(troupe::test::in_child([&] {
              owner.reset();
              return 0;
            }),
            0);
  EXPECT_TRUE(fetch_region(owner->server.address(), secret, soon()));
}

TEST(mapped_region, server_refuses_what_is_not_fit_to_be_shared) {
  const job_secret secret;
  const same_descriptors descriptors;
  const auto serve = [&](unique_fd fd, std::size_t size) {
    return error_of_call([&] { descriptor_server(std::move(fd), size, {}, secret); });
  };
  const test_memory good;
  const test_memory no_seal(good.size(), F_SEAL_GROW);
  const auto has = [](const std::string& text, const char* what) {
    EXPECT_NE(text.find(what), text.npos) << text;
  };
  has(serve(good.open_again(O_RDWR), good.size()), "reading only");
  has(serve(good.open_again(), good.size() + 1), "bytes");
  has(serve(no_seal.open_again(), good.size()), "could shrink");
  has(serve(unique_fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), 1), "memfd");
  has(serve(unique_fd(), 1), "examined");
}

}  // namespace
}  // namespace troupe::transport::test
