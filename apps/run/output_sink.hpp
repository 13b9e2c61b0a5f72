#pragma once

#include <string>
#include <string_view>

namespace troupe::launcher {

/// One of the launcher's own outputs. Text is queued until the output takes it, so that a reader
/// that has stopped reading never blocks the launcher. Not thread-safe.
class output_sink {
public:
  /// Writes to `fd`, which stays the caller's.
  explicit output_sink(int fd) : fd_(fd) {}
  output_sink(const output_sink&) = delete;
  output_sink& operator=(const output_sink&) = delete;

  int fd() const { return fd_; }

  /// Is it a terminal?
  bool is_terminal() const;

  /// Appends `text` to what is to be written.
  void put(std::string_view text);

  /// Puts a line of the launcher itself, given without its newline.
  void say(std::string_view line);

  /// Writes as much as the output takes at once.
  void pump();

  /// Bytes that wait to be written.
  std::size_t pending() const { return queue_.size() - written_; }

  /// True once the output has no reader any more; text is dropped from then on.
  bool broken() const { return broken_; }

  /// The stream that has begun a line and not finished it, or null.
  const void* holder() const { return holder_; }
  void hold(const void* holder) { holder_ = holder; }

  /// Finishes the line that another stream than `self` has begun, so that a new one can start.
  void interrupt(const void* self);

private:
  int fd_;
  std::string queue_;
  std::size_t written_ = 0;
  bool broken_ = false;
  const void* holder_ = nullptr;
};

}  // namespace troupe::launcher
