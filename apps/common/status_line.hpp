#pragma once

#include <iosfwd>
#include <string>

namespace common {

/// Shows progress to a person: redraws one line on a terminal, and prints a new line each time
/// elsewhere.
class status_line {
public:
  /// `out` must outlive the object.
  status_line(std::ostream& out, bool terminal) : out_(out), terminal_(terminal) {}

  bool terminal() const noexcept { return terminal_; }

  /// Shows `text` in place of what was shown before.
  void show(const std::string& text);

  /// Prints a line, or several, that stay, below what was shown.
  void say(const std::string& text);

  /// Throws std::system_error if something could not be written.
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
