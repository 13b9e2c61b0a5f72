#pragma once

#include <cstdint>
#include <iosfwd>

#include "troupe/apps/cartpole/training.hpp"
#include "troupe/apps/common/status_line.hpp"

namespace cartpole {

/// Tells a person how training goes.
///
/// On a terminal one line is redrawn, at most ten times a second; elsewhere there is a line every
/// log interval, in the tutorial's words. Rates are those since the line before.
class progress {
public:
  /// `out` must outlive the object.
  progress(std::ostream& out, bool terminal, int log_interval);

  /// Says what the run waits for.
  void begin();

  /// Shows the round that `record` has just taken in, if it is time to.
  void update(const training_record& record);

  /// Says how the run ended.
  void end(const training_record& record);

  /// Throws std::system_error when something could not be written.
  void check() const { line_.check(); }

private:
  bool due(const training_record& record) const;

  common::status_line line_;
  std::size_t log_interval_;
  double shown_seconds_ = 0;
  std::int64_t shown_steps_ = 0;
  std::int64_t shown_calls_ = 0;
};

}  // namespace cartpole
