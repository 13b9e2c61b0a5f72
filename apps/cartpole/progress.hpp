#pragma once

#include <cstdint>

#include "troupe/apps/cartpole/training.hpp"
#include "troupe/apps/common/status_line.hpp"

namespace cartpole {

/// Shows a person how training goes.
///
/// On a terminal one line is redrawn, at most ten times a second; elsewhere a line is printed every
/// log interval, in the words of PyTorch's tutorial. Rates are those since the line before.
class progress {
public:
  /// `line` must outlive the object.
  progress(common::status_line& line, int log_interval);

  /// Says when the run will end.
  void begin();

  /// Shows the last round of `record`, if it is time to.
  void update(const training_record& record);

  /// Says how the run ended.
  void end(const training_record& record);

private:
  bool due(const training_record& record) const;

  common::status_line& line_;
  std::size_t log_interval_;
  double shown_seconds_ = 0;
  std::int64_t shown_steps_ = 0;
  std::int64_t shown_calls_ = 0;
};

}  // namespace cartpole
