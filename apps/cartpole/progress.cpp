#include "apps/cartpole/progress.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <ostream>

#include "apps/cartpole/environment.hpp"

namespace cartpole {

namespace {

constexpr double redraw_seconds = 0.1;
constexpr const char* clear_line = "\r\x1b[K";

double rate(std::int64_t count, double seconds) {
  return seconds > 0 ? double(count) / seconds : 0;
}

// Local runs make no calls, and need not say so in every line.
std::string rates(double steps, double calls) {
  std::string text = with_commas(steps) + " steps/s";
  if (calls > 0) text += "\t" + with_commas(calls) + " calls/s";
  return text;
}

}  // namespace

progress::progress(std::ostream& out, bool terminal, int log_interval)
    : out_(out), terminal_(terminal), log_interval_(static_cast<std::size_t>(log_interval)) {}

void progress::begin() {
  out_ << fmt::format("This will run until reward threshold of {} is reached. Ctrl+C to exit.\n",
                      reward_threshold);
  flush();
}

void progress::update(const training_record& record) {
  if (!due(record)) return;
  const double seconds = record.seconds - shown_seconds_;
  if (terminal_) out_ << clear_line;
  out_ << fmt::format("Episode {}\tLast reward: {:.2f}\tAverage reward: {:.2f}\t{}",
                      record.episodes(), record.last_rewards.back(), record.running_reward(),
                      rates(rate(record.steps - shown_steps_, seconds),
                            rate(record.calls - shown_calls_, seconds)));
  if (!terminal_) out_ << '\n';
  flush();
  line_open_ = terminal_;
  shown_seconds_ = record.seconds;
  shown_steps_ = record.steps;
  shown_calls_ = record.calls;
}

void progress::end(const training_record& record) {
  if (line_open_) out_ << '\n';
  line_open_ = false;
  if (record.solved)
    out_ << fmt::format("Solved! Running reward is now {}!\n", record.running_reward());
  else
    out_ << fmt::format("Stopped before the task was solved. Running reward is now {:.2f}.\n",
                        record.running_reward());
  out_ << fmt::format("{} episodes, {} steps in {:.1f} s\t{}\n", record.episodes(),
                      with_commas(static_cast<double>(record.steps)), record.seconds,
                      rates(record.steps_per_second(), record.calls_per_second()));
  flush();
}

void progress::flush() {
  out_ << std::flush;
  if (!out_ && failure_ == 0) failure_ = errno;
}

bool progress::due(const training_record& record) const {
  if (terminal_) return record.solved || record.seconds >= shown_seconds_ + redraw_seconds;
  return record.episodes() % log_interval_ == 0;
}

std::string with_commas(double value) {
  std::string digits = std::to_string(std::llround(value));
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

}  // namespace cartpole
