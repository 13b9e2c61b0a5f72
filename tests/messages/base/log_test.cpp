// What the runtime's log looks like.
#include "troupe/messages/base/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <regex>
#include <sstream>

namespace troupe::test {
namespace {

// Without the times, which all have the same form.
std::string without_times(const std::string& text) {
  static const std::regex time(R"(\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\] (?=\[troupe\]))");
  return std::regex_replace(text, time, "");
}

std::string logged(const std::string& text) {
  std::ostringstream out;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(out);
  sink->set_formatter(make_log_formatter());
  spdlog::logger(std::string("one"), sink).warn("{}", text);
  return without_times(out.str());
}

TEST(logging, marks_a_line) {
  EXPECT_EQ(logged("all is well"), "[troupe] [warning] all is well\n");
  EXPECT_EQ(logged(""), "[troupe] [warning] \n");
}

TEST(logging, marks_each_line_of_several) {
  EXPECT_EQ(logged("first\nsecond\n\nlast\n"),
            "[troupe] [warning] first\n"
            "[troupe] [warning] second\n"
            "[troupe] [warning] \n"
            "[troupe] [warning] last\n");
}

// A peer's error may hold anything.
TEST(logging, sends_no_commands_to_a_terminal) {
  EXPECT_EQ(logged("a\x1b[2J\rb\tc\x7f" + std::string(1, '\0') + "\n[troupe] \b\xc3\xa4"),
            "[troupe] [warning] a\\x1b[2J\\x0db\tc\\x7f\\x00\n"
            "[troupe] [warning] [troupe] \\x08\xc3\xa4\n");
}

// Some take these for the start of a command, too; and what is no UTF-8 for whatever they like.
TEST(logging, sends_no_commands_to_a_terminal_in_other_characters) {
  EXPECT_EQ(logged("\xc2\x9b"
                   "2J\x9b\xc2\xa0\xff\xe2\x82\xac\xe2\x82\xf0\x9f\x98\x80\xc3"),
            "[troupe] [warning] \\xc2\\x9b"
            "2J\\x9b\xc2\xa0\\xff\xe2\x82\xac\\xe2\\x82\xf0\x9f\x98\x80\\xc3\n");
}

// Of a copy, which sinks are given.
TEST(logging, is_the_same_by_a_copy) {
  const auto copy = make_log_formatter()->clone();
  spdlog::memory_buf_t out;
  copy->format({"one", spdlog::level::err, "a\nb"}, out);
  EXPECT_EQ(without_times(fmt::to_string(out)), "[troupe] [error] a\n[troupe] [error] b\n");
}

TEST(logging, to_standard_error_is_marked_on_each_line) {
  ::testing::internal::CaptureStderr();
  log().warn("two\nlines");
  log().flush();
  std::istringstream lines(::testing::internal::GetCapturedStderr());
  int marked = 0;
  for (std::string line; std::getline(lines, line); ++marked)
    EXPECT_THAT(without_times(line), ::testing::StartsWith("[troupe] ["));
  EXPECT_EQ(marked, 2);
}

TEST(logging, names_the_time_and_the_rank) {
  log_as(3, "worker\x1b");
  std::ostringstream out;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(out);
  sink->set_formatter(make_log_formatter());
  spdlog::logger(std::string("one"), sink).warn("all is well");
  EXPECT_THAT(out.str(),
              ::testing::MatchesRegex(
                  R"(\[[0-9]+-[0-9]+-[0-9]+ [0-9]+:[0-9]+:[0-9]+\.[0-9]+\] )"
                  R"(\[troupe\] \[rank 3 worker\\x1b\] \[warning\] all is well[[:space:]])"));
}

// Runs after the destructors of all static objects, since it is registered before they are made.
bool logs_at_the_end = false;
[[gnu::constructor(101)]] void log_last() {
  std::atexit([] {
    if (logs_at_the_end) log().warn("late");
  });
}

TEST(logging, names_the_rank_until_the_process_ends) {
  EXPECT_EXIT(
      {
        log_as(1, "a name that needs memory of its own");
        logs_at_the_end = true;
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), R"(\[rank 1 a name that needs memory of its own\] .* late)");
}

// The level is read when the first line is logged, so each is tried in a process of its own.
int lines_at(const char* level) {
  setenv("TROUPE_LOG", level, 1);
  ::testing::internal::CaptureStderr();
  log().debug("one");
  log().info("two");
  log().warn("three");
  log().error("four");
  log().flush();
  const auto text = ::testing::internal::GetCapturedStderr();
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

TEST(log_levels, come_from_the_environment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::pair<const char*, int> levels[] = {{"debug", 4},   {"info", 3},  {"", 3},
                                                {"warning", 2}, {"error", 1}, {"off", 0},
                                                {"loud", 4}};  // three, and that it means nothing
  for (const auto& [level, lines] : levels)
    EXPECT_EXIT(std::exit(lines_at(level)), ::testing::ExitedWithCode(lines), "") << level;
}

}  // namespace
}  // namespace troupe::test
