#include "troupe/apps/run/line_stream.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace troupe::launcher {
namespace {

class line_stream_test : public testing::Test {
protected:
  ~line_stream_test() override { close(fd_); }

  /// Everything that has reached the output.
  std::string shown() {
    to_.pump();
    std::string text(static_cast<std::size_t>(lseek(fd_, 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(fd_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return text;
  }

  int fd_ = memfd_create("output", MFD_CLOEXEC);
  output_sink to_{fd_};
  line_stream a_{to_, "[0] "};
  line_stream b_{to_, "[1] "};
};

TEST_F(line_stream_test, prefixes_each_line) {
  a_.feed("one\ntwo\n\nfour\n");
  EXPECT_EQ(shown(), "[0] one\n[0] two\n[0] \n[0] four\n");
}

TEST_F(line_stream_test, never_shows_half_a_line) {
  a_.feed("half ");
  b_.feed("whole\nbe");
  EXPECT_EQ(shown(), "[1] whole\n");
  a_.feed("a line\n");
  b_.feed("gin\n");
  EXPECT_EQ(shown(), "[1] whole\n[0] half a line\n[1] begin\n");
}

TEST_F(line_stream_test, shows_a_last_line_without_newline) {
  a_.feed("done");
  a_.finish();
  a_.finish();
  EXPECT_EQ(shown(), "[0] done\n");
}

TEST_F(line_stream_test, passes_bytes_on_unchanged) {
  const std::string bytes("\0\xff\x80\x1b[1m\0", 8);
  a_.feed(bytes + "\n");
  EXPECT_EQ(shown(), "[0] " + bytes + "\n");
}

TEST_F(line_stream_test, breaks_a_line_without_end) {
  const std::string much(line_stream::max_line / 2 + 1, 'x');
  a_.feed(much);
  EXPECT_EQ(shown(), "");
  a_.feed(much);
  a_.feed("y\n");
  EXPECT_EQ(shown(), "[0] " + much + much + "\n[0] y\n");
}

TEST_F(line_stream_test, keeps_windows_line_ends) {
  a_.feed("one\r\ntwo\r\n");
  EXPECT_EQ(shown(), "[0] one\r\n[0] two\r\n");
}

TEST_F(line_stream_test, shows_progress_as_it_is_drawn) {
  a_.feed("10%\r");
  EXPECT_EQ(shown(), "[0] 10%\r");
  a_.feed("20%");
  EXPECT_EQ(shown(), "[0] 10%\r[0] 20%");
  a_.feed("\r100%\n");
  EXPECT_EQ(shown(), "[0] 10%\r[0] 20%\r[0] 100%\n");
}

TEST_F(line_stream_test, shows_progress_that_starts_with_the_return) {
  a_.feed("\r10%");
  a_.feed("\r20%");
  a_.finish();
  EXPECT_EQ(shown(), "\r[0] 10%\r[0] 20%\n");
}

TEST_F(line_stream_test, puts_other_lines_below_progress) {
  a_.feed("\r10%");
  b_.feed("hello\n");
  a_.feed("\r20%");
  a_.feed("\ndone\n");
  EXPECT_EQ(shown(), "\r[0] 10%\n[1] hello\n\r[0] 20%\n[0] done\n");
}

TEST_F(line_stream_test, keeps_a_second_progress_until_the_first_has_ended) {
  a_.feed("\ra1");
  b_.feed("\rb1");
  a_.feed("\ra2\n");
  b_.feed("\rb2\n");
  EXPECT_EQ(shown(), "\r[0] a1\r[0] a2\n\r[1] b1\r[1] b2\n");
}

TEST_F(line_stream_test, finishes_progress_before_a_line_of_the_launcher) {
  a_.feed("10%\r20%");
  to_.say("rank 1 failed");
  a_.finish();
  EXPECT_EQ(shown(), "[0] 10%\r[0] 20%\ntroupe-run: rank 1 failed\n");
}

}  // namespace
}  // namespace troupe::launcher
