#pragma once

#include <cstdint>
#include <string>

#include "troupe/apps/common/status_line.hpp"

namespace common {

/// The progress of a piece of work.
struct work_done {
  std::string title;  ///< of the work, "batched"
  std::string unit;   ///< what is counted, "gradients"
  std::int64_t done = 0;
  std::int64_t total = 0;
  double seconds = 0;  ///< since it began
};

/// `how` in a line: title, bar, per cent, count, rate over the whole time and, until it is done,
/// the time left at that rate; then `note`, if there is one.
std::string bar_text(const work_done& how, const std::string& note = {});

/// Shows the progress of a piece of work: ten times a second on a terminal, once a second
/// elsewhere.
class progress_bar {
public:
  /// `line` must outlive the object.
  progress_bar(status_line& line, std::string title, std::string unit, std::int64_t total);

  /// Is it time to show it again? For callers whose note takes time to make.
  bool due(double seconds) const;

  /// Shows it, if it is time to or if all is done.
  void update(std::int64_t done, double seconds, const std::string& note = {});

private:
  status_line& line_;
  work_done how_;
  double shown_seconds_ = 0;
};

}  // namespace common
