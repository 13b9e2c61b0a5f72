// The main function of a program that several tests are compiled into (troupe_test_batches). Each
// of them has a link to the program which is called as its source is: the program runs the tests of
// that source alone. By another name it runs all.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace {

bool stands_in(const testing::TestInfo& test, const std::string& source) {
  return std::filesystem::path(test.file()).stem() == source;
}

// Of all tests but those of `source`: ":suite.test:suite.other".
std::string others(const std::string& source) {
  std::string names;
  bool any = false;
  const auto& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const auto& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const auto& test = *suite.GetTestInfo(k);
      if (stands_in(test, source))
        any = true;
      else
        names += ":" + std::string(suite.name()) + "." + test.name();
    }
  }
  return any ? names : "";
}

}  // namespace

int main(int argc, char** argv) {
  const auto called = std::filesystem::path(argv[0]).filename().string();
  testing::InitGoogleTest(&argc, argv);
  if (const auto names = others(called); !names.empty()) {
    auto& filter = testing::GTEST_FLAG(filter);
    filter += filter.find('-') == std::string::npos ? "-" + names.substr(1) : names;
  }
  return RUN_ALL_TESTS();
}
