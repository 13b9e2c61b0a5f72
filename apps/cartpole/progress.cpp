#include "troupe/apps/cartpole/progress.hpp"

#include <fmt/format.h>

#include "troupe/apps/cartpole/environment.hpp"

namespace cartpole {

namespace {

constexpr double redraw_seconds = 0.1;

double rate(std::int64_t count, double seconds) {
  return seconds > 0 ? double(count) / seconds : 0;
}

// Local runs make no calls, and need not say so in every line.
std::string rates(double steps, double calls) {
  std::string text = common::with_commas(steps) + " steps/s";
  if (calls > 0) text += "\t" + common::with_commas(calls) + " calls/s";
  return text;
}

}  // namespace

progress::progress(common::status_line& line, int log_interval)
    : line_(line), log_interval_(static_cast<std::size_t>(log_interval)) {}

void progress::begin() {
  line_.say(fmt::format("This will run until reward threshold of {} is reached. Ctrl+C to exit.",
                        reward_threshold));
}

void progress::update(const training_record& record) {
  if (!due(record)) return;
  const double seconds = record.seconds - shown_seconds_;
  line_.show(fmt::format("Episode {}\tLast reward: {:.2f}\tAverage reward: {:.2f}\t{}",
                         record.episodes(), record.last_rewards.back(), record.running_reward(),
                         rates(rate(record.steps - shown_steps_, seconds),
                               rate(record.calls - shown_calls_, seconds))));
  shown_seconds_ = record.seconds;
  shown_steps_ = record.steps;
  shown_calls_ = record.calls;
}

void progress::end(const training_record& record) {
  if (record.solved)
    line_.say(fmt::format("Solved! Running reward is now {}!", record.running_reward()));
  else
    line_.say(fmt::format("Stopped before the task was solved. Running reward is now {:.2f}.",
                          record.running_reward()));
  line_.say(fmt::format("{} episodes, {} steps in {:.1f} s\t{}", record.episodes(),
                        common::with_commas(static_cast<double>(record.steps)), record.seconds,
                        rates(record.steps_per_second(), record.calls_per_second())));
}

bool progress::due(const training_record& record) const {
  if (line_.terminal()) return record.solved || record.seconds >= shown_seconds_ + redraw_seconds;
  return record.episodes() % log_interval_ == 0;
}

}  // namespace cartpole
