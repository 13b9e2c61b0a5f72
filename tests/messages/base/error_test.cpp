// The text of an error, and what it keeps on its way through calls that did not catch it.
#include "troupe/messages/base/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace troupe::test {
namespace {

fault passed_through(fault f, const std::string& node, const std::string& function) {
  return describe(to_exception(std::move(f)), node, function);
}

TEST(errors, that_begin_in_a_call_name_it) {
  const auto f = describe(std::make_exception_ptr(std::out_of_range("no such key")), "ps", "load");
  EXPECT_EQ(f.code, errc::remote_error);
  EXPECT_EQ(f.via, "");
  EXPECT_STREQ(remote_error(f).what(), "std::out_of_range: no such key [load on ps]");
  const auto ours = describe(std::make_exception_ptr(invalid_argument("no")), "ps", "load");
  EXPECT_STREQ(invalid_argument(ours).what(), "no [load on ps]");
}

TEST(errors, that_were_passed_on_name_the_calls_that_did) {
  auto f = describe(std::make_exception_ptr(std::out_of_range("no such key")), "ps", "load");
  f = passed_through(f, "trainer1", "evaluate");
  f = passed_through(f, "trainer0", "step");
  EXPECT_EQ(f.code, errc::remote_error);
  EXPECT_EQ(f.type, "std::out_of_range");
  EXPECT_EQ(f.text, "no such key");
  EXPECT_EQ(f.node, "ps");
  EXPECT_EQ(f.function, "load");
  EXPECT_EQ(f.via, "evaluate on trainer1\nstep on trainer0");
  EXPECT_STREQ(remote_error(f).what(),
               "std::out_of_range: no such key [load on ps, called by evaluate on trainer1, called "
               "by step on trainer0]");
}

// A lost node or a limit is about the call that was made, not about the one that has made it.
TEST(errors, about_another_node_keep_whom_they_are_about) {
  fault f;
  f.code = errc::peer_lost;
  f.node = "ps";
  f.text = "its process has ended";
  f = passed_through(f, "trainer1", "evaluate");
  EXPECT_EQ(f.node, "ps");
  EXPECT_EQ(f.function, "");
  EXPECT_STREQ(peer_lost(f).what(),
               "its process has ended [on ps, called by evaluate on trainer1]");
}

TEST(errors, that_are_reported_twice_of_one_call_name_it_once) {
  auto f = describe(std::make_exception_ptr(std::out_of_range("x")), "ps", "load");
  f = passed_through(f, "ps", "load");
  EXPECT_EQ(f.via, "");
  for (int i = 0; i < 2; ++i) f = passed_through(f, "trainer1", "evaluate");
  EXPECT_EQ(f.via, "evaluate on trainer1");
  // Back where it began: that is another call.
  f = passed_through(f, "ps", "load");
  EXPECT_EQ(f.via, "evaluate on trainer1\nload on ps");
  // A caller that knows neither adds nothing.
  f = passed_through(f, "", "");
  EXPECT_EQ(f.via, "evaluate on trainer1\nload on ps");
}

TEST(errors, of_a_long_way_stay_short) {
  auto f = describe(std::make_exception_ptr(std::out_of_range("x")), "ps", "load");
  for (int i = 0; i < 10'000; ++i) f = passed_through(f, i % 2 ? "a" : "b", "descend");
  EXPECT_LT(f.via.size(), 3'000u);
  EXPECT_THAT(f.via, ::testing::StartsWith("descend on b\ndescend on a\n"));
  EXPECT_THAT(f.via, ::testing::EndsWith("\n..."));
}

}  // namespace
}  // namespace troupe::test
