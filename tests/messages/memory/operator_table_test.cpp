// What libtorch's operators do with tensors whose memory is lent by another process.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/messages/memory/operator_walk.hpp"

namespace troupe::test {

namespace {

using names = std::vector<std::string>;

names those(const std::map<std::string, with_borrowed>& all, with_borrowed what) {
  names out;
  for (const auto& [name, does] : all)
    if (does == what) out.push_back(name);
  return out;
}

names lines_of(const std::string& path) {
  names out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#') out.push_back(line);
  return out;
}

}  // namespace

TEST(operator_table, says_which_operators_copy_what_they_only_read) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP()
      << "libtorch is not compiled for sanitizers, and their memory exceeds the children's";
#endif
  const auto all = walk_operators(4, 1);
  EXPECT_EQ(those(all, with_borrowed::writes_through), names());
  EXPECT_EQ(those(all, with_borrowed::fails), names());
  EXPECT_EQ(those(all, with_borrowed::differs), names());
  EXPECT_EQ(those(all, with_borrowed::copies),
            lines_of(TROUPE_TEST_SOURCE_DIR "/memory/operators_that_copy.txt"));
  const auto reads = those(all, with_borrowed::reads).size();
  const auto writes = those(all, with_borrowed::writes).size();
  EXPECT_GT(reads, 500);
  EXPECT_GT(writes, 500);
  std::ofstream table(TROUPE_TEST_PROGRAM_DIR "/operator_table.txt");
  for (const auto& [name, does] : all) table << name << ' ' << static_cast<int>(does) << '\n';
  RecordProperty("operators", static_cast<int>(all.size()));
  RecordProperty("read_without_copy", static_cast<int>(reads));
  RecordProperty("write", static_cast<int>(writes));
}

}  // namespace troupe::test
