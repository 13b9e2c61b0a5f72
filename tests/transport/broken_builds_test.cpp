// The patches that break things on purpose still fit the tree (see docs/simulation.md).

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace troupe::transport::test {
namespace {

TEST(broken_builds, patches_apply) {
  const std::filesystem::path here = TROUPE_TEST_SOURCE_DIR;
  const std::string in = "cd '" + (here / "../..").string() + "' && ";
  if (std::system((in + "git rev-parse --git-dir >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "this is no clone";
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(here / "..")) {
    if (entry.path().extension() != ".patch") continue;
    const std::string path = entry.path().string();
    EXPECT_EQ(std::system((in + "git apply --check '" + path + "'").c_str()), 0)
        << path << " does not apply: make it anew";
    ++count;
  }
  EXPECT_GE(count, 14);
}

}  // namespace
}  // namespace troupe::transport::test
