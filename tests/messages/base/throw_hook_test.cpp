// Where an exception was thrown, as debug builds know it. This program has the hook in any build.

#ifdef NDEBUG
#define TROUPE_THROW_HOOK
#include "troupe/messages/base/throw_hook.cpp"
#else
#include "troupe/messages/base/error.hpp"
#endif

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace troupe::test {

// Not static, so that they have names at run time.
__attribute__((noinline)) void throw_from_within(int x) {
  if (x >= 0) throw std::out_of_range("too far");
}
__attribute__((noinline)) std::exception_ptr caught_from(int x) {
  try {
    throw_from_within(x);
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

namespace {

TEST(throw_hook, reports_which_way_an_exception_came) {
  const auto f = describe(caught_from(1), "here", "there");
  EXPECT_EQ(f.text, "too far");
  EXPECT_EQ(f.type, "std::out_of_range");
  EXPECT_THAT(f.trace, ::testing::HasSubstr("\n")) << f.trace;
}

TEST(throw_hook, reports_nothing_of_exceptions_that_others_have_followed) {
  const auto first = caught_from(1);
  const auto second = caught_from(2);
  EXPECT_EQ(describe(first, {}, {}).trace, "");
  EXPECT_NE(describe(second, {}, {}).trace, "");
  std::string elsewhere = "something";
  std::thread([&] { elsewhere = describe(second, {}, {}).trace; }).join();
  EXPECT_EQ(elsewhere, "");
}

TEST(throw_hook, lets_errors_of_ours_pass) {
  try {
    throw invalid_argument("no such thing");
  } catch (const invalid_argument& e) {
    EXPECT_EQ(e.fault().text, "no such thing");
  }
}

}  // namespace

}  // namespace troupe::test
