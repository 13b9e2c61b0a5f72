#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "apps/cartpole/training.hpp"

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

  /// The errno of the first write that failed, or 0.
  int failure() const noexcept { return failure_; }

private:
  bool due(const training_record& record) const;
  void flush();

  std::ostream& out_;
  bool terminal_;
  std::size_t log_interval_;
  bool line_open_ = false;  // a redrawn line waits for its end
  int failure_ = 0;
  double shown_seconds_ = 0;
  std::int64_t shown_steps_ = 0;
  std::int64_t shown_calls_ = 0;
};

/// `value` rounded, with commas between thousands: 73,937.
std::string with_commas(double value);

}  // namespace cartpole
