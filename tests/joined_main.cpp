// The main function of a program that several tests are compiled into (cmake/Tests.cmake). Each of
// them has a link to the program which is called as its source is: the program runs the tests of
// that source alone. By its own name it runs all.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <string>

namespace {

// What a link asks for, as GoogleTest's filter leaves out the rest.
struct selection {
  std::set<std::string> of_source, others;  // "suite.test"

  explicit selection(const std::string& source) {
    const auto& all = *testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
      const auto& suite = *all.GetTestSuite(i);
      for (int k = 0; k < suite.total_test_count(); ++k) {
        const auto& test = *suite.GetTestInfo(k);
        const bool here = std::filesystem::path(test.file()).stem() == source;
        (here ? of_source : others).insert(std::string(suite.name()) + "." + test.name());
      }
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  const auto called = std::filesystem::path(argv[0]).filename().string();
  testing::InitGoogleTest(&argc, argv);
  if (called.ends_with("_test")) {
    const selection tests(called);
    if (tests.of_source.empty()) {
      std::fprintf(stderr, "%s: this program has no test of %s.cpp: build it anew\n", argv[0],
                   called.c_str());
      return 1;
    }
    std::string without;
    for (const auto& other : tests.others) {
      if (tests.of_source.contains(other)) {
        std::fprintf(stderr, "%s: %s stands in two sources\n", argv[0], other.c_str());
        return 1;
      }
      without += ":" + other;
    }
    auto& filter = testing::GTEST_FLAG(filter);
    if (!without.empty())
      filter += filter.find('-') == std::string::npos ? "-" + without.substr(1) : without;
  }
  return RUN_ALL_TESTS();
}
