// The binary interface of NCCL as Troupe has written it down, beside what the library at hand has.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "troupe/actors/groups/nccl/nccl_functions.hpp"
#include "troupe/actors/groups/nccl/nccl_options.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::test {
namespace {

using namespace groups::nccl;

// ncclConfig_t of NCCL 2.28 on x86-64.
static_assert(sizeof(unique_id) == 128);
static_assert(offsetof(configuration, blocking) == 16);
static_assert(offsetof(configuration, net_name) == 32);
static_assert(offsetof(configuration, split_share) == 40);
static_assert(offsetof(configuration, comm_name) == 48);
static_assert(offsetof(configuration, nvlink_centric_scheduling) == 76);
static_assert(sizeof(configuration) == 80);

TEST(nccl_interface, leaves_out_what_an_older_library_does_not_know) {
  const auto made = nccl_options::parse({{"nccl.min_ctas", "2"}, {"nccl.net_name", "IB"}});
  const std::string name = "a group";
  EXPECT_EQ(made.for_version(21700, name).size, 40u);
  EXPECT_EQ(made.for_version(21805, name).size, 48u);
  EXPECT_EQ(made.for_version(22602, name).comm_name, nullptr);
  const auto newest = made.for_version(23004, name);
  EXPECT_EQ(newest.size, sizeof(configuration));
  EXPECT_EQ(newest.version, 22800u);
  EXPECT_EQ(newest.blocking, 0);
  EXPECT_EQ(newest.min_ctas, 2);
  EXPECT_EQ(newest.max_ctas, not_set);
  EXPECT_STREQ(newest.net_name, "IB");
  EXPECT_STREQ(newest.comm_name, "a group");
  EXPECT_THROW(made.for_version(21400, name), invalid_argument);
}

TEST(nccl_interface, tells_versions) {
  EXPECT_EQ(version_text(22809), "2.28.9");
  EXPECT_EQ(version_text(2708), "2.7.8");
}

// Opening it needs no GPU.
TEST(nccl_interface, is_found_in_the_library_where_that_is) {
  std::shared_ptr<const nccl_functions> all;
  try {
    all = nccl_functions::open(default_library());
  } catch (const invalid_argument& e) {
    GTEST_SKIP() << e.what();
  }
  EXPECT_GE(all->version, 21400);
  EXPECT_STREQ(all->get_error_string(result::in_progress), "NCCL operation in progress");
  EXPECT_STREQ(all->get_error_string(result::success), "no error");
  std::cout << "NCCL " << version_text(all->version) << " of " << all->library << std::endl;
}

}  // namespace
}  // namespace troupe::test
