#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "troupe/apps/common/command_line.hpp"
#include "troupe/apps/common/files.hpp"
#include "troupe/apps/common/initial_weights.hpp"
#include "troupe/apps/common/program.hpp"
#include "troupe/apps/common/progress_bar.hpp"
#include "troupe/messages/base/error.hpp"

namespace {

using namespace common;
using testing::HasSubstr;

TEST(files, are_written_or_the_failure_names_them) {
  const std::string path = testing::TempDir() + "common_test." + std::to_string(getpid());
  require_writable(path);
  write_file(path, "text");
  require_writable(path);  // keeps what is there
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "text");
  std::remove(path.c_str());
  const auto reason = [](void (*write)(const std::string&), const char* to) -> std::string {
    try {
      write(to);
    } catch (const troupe::invalid_argument& failure) {
      return failure.what();
    }
    return "";
  };
  for (const auto& write : {+[](const std::string& p) { require_writable(p); },
                            +[](const std::string& p) { write_file(p, ""); }})
    EXPECT_EQ(reason(write, "/no/such/folder/reward.svg"),
              "cannot write '/no/such/folder/reward.svg': No such file or directory");
  EXPECT_EQ(reason([](const std::string& p) { write_file(p, "text"); }, "/dev/full"),
            "cannot write '/dev/full': No space left on device");
}

TEST(status_line, puts_commas_between_thousands) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(999.5), "1,000");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(with_commas(-1234), "-1,234");
}

TEST(status_line, is_redrawn_on_a_terminal_only) {
  std::ostringstream terminal, pipe;
  for (auto* out : {&terminal, &pipe}) {
    status_line line(*out, out == &terminal);
    line.show("one");
    line.show("two");
    line.say("end");
    line.say("of it");
  }
  EXPECT_EQ(terminal.str(), "\r\x1b[Kone\r\x1b[Ktwo\nend\nof it\n");
  EXPECT_EQ(pipe.str(), "one\ntwo\nend\nof it\n");
}

TEST(status_line, keeps_why_its_output_failed) {
  std::ofstream full("/dev/full");
  status_line line(full, false);
  line.say("something");
  EXPECT_EQ(line.failure(), ENOSPC);
  errno = 0;
  line.say("more");
  EXPECT_EQ(line.failure(), ENOSPC);
  try {
    line.check();
    FAIL() << "nobody has noticed";
  } catch (const std::system_error& failure) {
    EXPECT_STREQ(failure.what(), "cannot write standard output: No space left on device");
  }
  std::ostringstream good;
  status_line intact(good, false);
  intact.say("something");
  EXPECT_EQ(intact.failure(), 0);
  EXPECT_NO_THROW(intact.check());
}

TEST(progress_bar, shows_share_count_rate_and_time_left) {
  work_done how{.title = "batched", .unit = "gradients", .done = 0, .total = 1600};
  EXPECT_EQ(bar_text(how), "batched [--------------------]   0 %  0 of 1,600 gradients");
  how.done = 400;
  how.seconds = 4;
  EXPECT_EQ(bar_text(how, "loss 1.25"),
            "batched [#####---------------]  25 %  400 of 1,600 gradients  100/s  12.0 s left  "
            "loss 1.25");
  how.done = 1600;
  how.seconds = 1000;
  EXPECT_EQ(bar_text(how), "batched [####################] 100 %  1,600 of 1,600 gradients  1.6/s");
  how.done = 1;
  EXPECT_THAT(bar_text(how), HasSubstr("444:10 h left"));
  how.done = 1000;
  EXPECT_THAT(bar_text(how), HasSubstr("10:00 min left"));
}

TEST(progress_bar, survives_wrong_counts) {
  EXPECT_THAT(bar_text({.title = "", .unit = "", .done = 3, .total = 0}), HasSubstr("100 %"));
  EXPECT_THAT(bar_text({.title = "", .unit = "", .done = 9, .total = 3}), HasSubstr("100 %"));
}

std::size_t shown(bool terminal) {
  std::ostringstream out;
  status_line line(out, terminal);
  progress_bar bar(line, "work", "parts", 1000);
  for (int i = 1; i <= 1000; ++i) bar.update(i, 0.00301 * i);
  bar.update(1000, 4.5);
  const auto text = out.str();
  EXPECT_THAT(text, HasSubstr("100 %"));
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), terminal ? '\r' : '\n'));
}

TEST(progress_bar, is_shown_ten_times_a_second_on_a_terminal_and_once_elsewhere) {
  EXPECT_NEAR(double(shown(true)), 31, 2);
  EXPECT_NEAR(double(shown(false)), 5, 1);
}

// The same distribution as the layers' own, from a generator of one's own.
TEST(initial_weights, are_drawn_for_all_layers) {
  const auto draw = [](std::uint64_t seed) {
    torch::nn::Sequential network(torch::nn::Conv2d(3, 4, 5), torch::nn::Linear(100, 50));
    draw_weights(*network, make_generator(seed));
    return network->parameters();
  };
  const auto first = draw(1), again = draw(1), other = draw(2);
  ASSERT_EQ(first.size(), 4u);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double bound = i < 2 ? 1 / std::sqrt(75.0) : 0.1;
    EXPECT_TRUE(first[i].equal(again[i]));
    EXPECT_FALSE(first[i].equal(other[i]));
    EXPECT_LE(first[i].abs().max().item<double>(), bound);
    EXPECT_GT(first[i].abs().max().item<double>(), bound / 10);
    EXPECT_TRUE(first[i].requires_grad());
  }
}

struct program_options {
  double limit = 60;
  std::string json;
};

std::optional<program_options> read_options(int argc, const char* const* argv, int& exit_code) {
  program_options opts;
  CLI::App app("Does nothing.", "idle");
  describe(app, "The end.");
  add_job_options(app, opts, "before nothing happens");
  if (!parse(app, argc, argv, exit_code)) return std::nullopt;
  return opts;
}

// The exit code of a program with these arguments.
int exit_code_of(std::vector<const char*> arguments,
                 const std::function<bool(const program_options&)>& run) {
  arguments.insert(arguments.begin(), "idle");
  return program("idle", static_cast<int>(arguments.size()), const_cast<char**>(arguments.data()),
                 &read_options, run);
}

TEST(program, ends_with_the_exit_code_of_its_run) {
  EXPECT_EQ(exit_code_of({}, [](const auto&) { return true; }), 0);
  EXPECT_EQ(exit_code_of({}, [](const auto&) { return false; }), 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(exit_code_of({}, [](const auto&) -> bool { throw troupe::invalid_argument("bad"); }),
            1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "idle: bad\n");
}

TEST(program, does_not_run_without_a_right_command_line) {
  const auto fails = [](const auto&) -> bool { throw std::logic_error("has run"); };
  testing::internal::CaptureStdout();
  EXPECT_EQ(exit_code_of({"--help"}, fails), 0);
  const auto help = testing::internal::GetCapturedStdout();
  EXPECT_THAT(help, HasSubstr("Seconds for which a rank may be silent before nothing happens"));
  EXPECT_THAT(help, HasSubstr("\nThe end."));
  testing::internal::CaptureStdout();
  EXPECT_EQ(exit_code_of({"--version"}, fails), 0);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), testing::StartsWith("idle "));
  testing::internal::CaptureStderr();
  EXPECT_EQ(exit_code_of({"--limit", "0"}, fails), 2);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("a number from 0.1 to 86400"));
  EXPECT_EQ(
      exit_code_of({"--limit", "2", "--json", "j"},
                   [](const program_options& opts) { return opts.limit == 2 && opts.json == "j"; }),
      0);
}

struct number_record {
  int number;
};
std::string to_json(const number_record& record) { return std::to_string(record.number); }

TEST(recorded_runs, are_written_and_refused_before_they_begin) {
  program_options opts;
  opts.json = testing::TempDir() + "recorded_test." + std::to_string(getpid());
  const auto record = run_recorded(opts, [](status_line&) { return number_record{7}; });
  EXPECT_EQ(record.number, 7);
  std::ifstream file(opts.json);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "7");
  std::remove(opts.json.c_str());
  opts.json = "/no/such/folder/numbers.json";
  bool has_run = false;
  EXPECT_THROW(run_recorded(opts,
                            [&](status_line&) {
                              has_run = true;
                              return number_record{8};
                            }),
               troupe::invalid_argument);
  EXPECT_FALSE(has_run);
}

}  // namespace
