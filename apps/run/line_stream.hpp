#pragma once

#include <string>
#include <string_view>

#include "troupe/apps/run/output_sink.hpp"

namespace troupe::launcher {

/// Turns the bytes of one rank's output into prefixed lines, each put as a whole.
///
/// A line that redraws itself with carriage returns (a progress bar) is shown as it grows, as long
/// as no other stream is in the middle of such a line; the prefix follows each carriage return.
/// Bytes are passed on as they are. A line of more than `max_line` bytes is broken there.
class line_stream {
public:
  static constexpr std::size_t max_line = 16 << 20;

  line_stream(output_sink& to, std::string prefix) : to_(to), prefix_(std::move(prefix)) {}
  line_stream(const line_stream&) = delete;
  line_stream& operator=(const line_stream&) = delete;

  void feed(std::string_view bytes);

  /// The stream has ended: shows a last line without newline.
  void finish();

private:
  void show_line(std::string_view line);
  void show_progress();
  void write_text(std::string_view text);

  output_sink& to_;
  std::string prefix_;
  std::string rest_;           ///< of the current line, not shown yet
  bool redraws_ = false;       ///< the current line had a carriage return
  bool after_return_ = false;  ///< the last byte shown was a carriage return
  bool prefixed_ = false;      ///< the prefix of the current piece has been shown
};

}  // namespace troupe::launcher
