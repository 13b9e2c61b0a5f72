#pragma once

#include <iosfwd>
#include <string>

namespace common {

/// Tells a person how something goes: on a terminal one line is redrawn, elsewhere there is a line
/// for each time.
class status_line {
public:
  /// `out` must outlive the object.
  status_line(std::ostream& out, bool terminal) : out_(out), terminal_(terminal) {}

  bool terminal() const noexcept { return terminal_; }

  /// Shows how it goes, in place of what was shown before.
  void show(const std::string& text);

  /// Says something that stays, a line or several, below what was shown.
  void say(const std::string& text);

  /// Throws std::system_error when something could not be written.
  void check() const;

  /// The errno of the first write that failed, or 0.
  int failure() const noexcept { return failure_; }

private:
  void flush();

  std::ostream& out_;
  bool terminal_;
  bool line_open_ = false;  // a redrawn line waits for its end
  int failure_ = 0;
};

/// `value` rounded, with commas between thousands: 73,937.
std::string with_commas(double value);

}  // namespace common
