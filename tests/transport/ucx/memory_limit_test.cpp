// What the limits of control groups leave for queues in shared memory. The groups are files of the
// tests; what the kernel does with its own would need a container.
#include "troupe/transport/system/memory_limit.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/transport/store/store_fixture.hpp"
#include "troupe/transport/ucx/queue_shape.hpp"

namespace troupe::transport::test {
namespace {

constexpr std::uint64_t mebibyte = 1 << 20;

class memory_limits : public testing::Test {
protected:
  void put(const std::string& name, const std::string& text) const {
    const auto file = folder_.path / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }

  void put(const std::string& name, std::uint64_t number) const {
    put(name, std::to_string(number));
  }

  std::string at(const std::string& name) const { return (folder_.path / name).string(); }

  control_groups groups() const { return {at("own"), at("root")}; }

private:
  const temporary_folder folder_;
};

TEST_F(memory_limits, are_none_where_nothing_sets_one) {
  EXPECT_FALSE(find_memory_limit(groups()));
  put("own", "0::/a/b");
  EXPECT_FALSE(find_memory_limit(groups()));
  put("root/a/b/memory.max", "max");
  put("root/a/b/memory.current", 5 * mebibyte);
  EXPECT_FALSE(find_memory_limit(groups()));
  put("own", "4:cpu,memory:/\n0::/");
  put("root/memory/memory.limit_in_bytes", std::uint64_t{9'223'372'036'854'771'712u});
  EXPECT_FALSE(find_memory_limit(groups()));
}

TEST_F(memory_limits, are_those_of_the_group_that_has_least_left) {
  put("own", "0::/a/b");
  put("root/a/b/memory.max", 1000 * mebibyte);
  put("root/a/b/memory.current", 100 * mebibyte);
  put("root/a/memory.max", 2000 * mebibyte);
  put("root/a/memory.current", 1500 * mebibyte);
  const auto found = find_memory_limit(groups());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->file, at("root/a/memory.max"));
  EXPECT_EQ(found->whole, 2000 * mebibyte);
  EXPECT_EQ(found->left, 500 * mebibyte);
}

TEST_F(memory_limits, leave_what_cached_files_take) {
  put("own", "0::/");
  put("root/memory.max", 1000 * mebibyte);
  put("root/memory.current", 990 * mebibyte);
  put("root/memory.stat", "anon 5\ninactive_file " + std::to_string(300 * mebibyte) +
                              "\nactive_file " + std::to_string(200 * mebibyte) + "\nshmem 7");
  EXPECT_EQ(find_memory_limit(groups()).value().left, 510 * mebibyte);
  put("root/memory.current", 2000 * mebibyte);  // for a moment
  EXPECT_EQ(find_memory_limit(groups()).value().left, 0u);
}

// A container of version 1 sees its own group as the root, and its path of outside.
TEST_F(memory_limits, are_found_by_version_1_too) {
  put("own", "5:cpuset:/docker/1f\n4:memory:/docker/1f\n0::/");
  put("root/memory/memory.limit_in_bytes", 64 * mebibyte);
  put("root/memory/memory.usage_in_bytes", 24 * mebibyte);
  put("root/memory/memory.stat", "inactive_file 1\ntotal_inactive_file " +
                                     std::to_string(3 * mebibyte) + "\ntotal_active_file " +
                                     std::to_string(mebibyte));
  const auto found = find_memory_limit(groups());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->file, at("root/memory/memory.limit_in_bytes"));
  EXPECT_EQ(found->left, 44 * mebibyte);
}

// A large /dev/shm is of no use then: a process that writes more into it is killed.
TEST_F(memory_limits, are_limits_of_queues_and_named) {
  const auto unlimited = ucx::look_for_room(groups());
  if (unlimited.free < 40 * mebibyte) GTEST_SKIP() << unlimited.folder << " is nearly full";
  put("own", "0::/");
  put("root/memory.max", 1000 * mebibyte);
  put("root/memory.current", 980 * mebibyte);
  const auto room = ucx::look_for_room(groups());
  EXPECT_EQ(room.usable, 15 * mebibyte);
  const auto text = ucx::describe_need(room, 1, ucx::queue_shapes[0]);
  for (const auto& part : {std::string("may take 15.0 MiB"), at("root/memory.max"),
                           std::string("leaves 20.0 MiB of 1000.0 MiB")})
    EXPECT_NE(text.find(part), text.npos) << part << " is missing in: " << text;
}

TEST_F(memory_limits, count_as_the_memory_of_the_machine) {
  put("own", "0::/");
  put("root/memory.max", 1024 * mebibyte);
  put("root/memory.current", 0);
  EXPECT_LE(ucx::look_for_room(groups()).usable, 64 * mebibyte);
}

}  // namespace
}  // namespace troupe::transport::test
