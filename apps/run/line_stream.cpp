#include "troupe/apps/run/line_stream.hpp"

namespace troupe::launcher {

void line_stream::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end == bytes.npos ? bytes.size() : end + 1);
    bytes.remove_prefix(part.size());
    if (part.find('\r') != part.npos) redraws_ = true;
    if (end != part.npos && rest_.empty()) {
      show_line(part);
      continue;
    }
    rest_.append(part);
    if (end != part.npos) {
      show_line(rest_);
      rest_.clear();
    } else if (rest_.size() > max_line) {
      finish();
    }
  }
  if (redraws_ && !rest_.empty()) show_progress();
}

void line_stream::finish() {
  const bool unfinished = to_.holder() == this;
  if (rest_.empty() && !unfinished) return;
  rest_ += '\n';
  show_line(rest_);
  rest_.clear();
}

void line_stream::show_line(std::string_view line) {
  to_.interrupt(this);
  write_text(line);
  to_.hold(nullptr);
  redraws_ = false;
}

void line_stream::show_progress() {
  if (to_.holder() != nullptr && to_.holder() != this) return;
  write_text(rest_);
  rest_.clear();
  to_.hold(this);
}

void line_stream::write_text(std::string_view text) {
  if (to_.holder() != this) prefixed_ = after_return_ = false;
  while (!text.empty()) {
    const auto end = text.find('\r');
    const std::string_view piece = text.substr(0, end == text.npos ? text.size() : end + 1);
    text.remove_prefix(piece.size());
    const bool bare = piece == "\r" || (piece == "\n" && after_return_);
    if (!prefixed_ && !bare) to_.put(prefix_);
    to_.put(piece);
    after_return_ = piece.ends_with('\r');
    prefixed_ = !after_return_;
  }
}

}  // namespace troupe::launcher
