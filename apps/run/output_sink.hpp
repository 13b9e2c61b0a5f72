#pragma once

#include <string>
#include <string_view>

namespace troupe::launcher {

/// One of the launcher's own outputs. What is put is kept until the output takes it, so that a
/// reader that has stopped reading never blocks the launcher. Not thread-safe.
class outlet {
public:
  /// Writes to `fd`, which stays the caller's.
  explicit outlet(int fd) : fd_(fd) {}
  outlet(const outlet&) = delete;
  outlet& operator=(const outlet&) = delete;

  int fd() const { return fd_; }

  /// Whether a person watches it.
  bool is_terminal() const;

  /// Appends `text` to what is to be written.
  void put(std::string_view text);

  /// Puts a line of the launcher's own, without its newline.
  void say(std::string_view line);

  /// Writes as much as the output takes at once.
  void pump();

  /// Bytes that wait to be written.
  std::size_t pending() const { return queue_.size() - written_; }

  /// True once nobody can read the output any more; what is put is dropped from then on.
  bool broken() const { return broken_; }

  /// Whoever has shown a line that is not finished yet, or null.
  const void* holder() const { return holder_; }
  void hold(const void* holder) { holder_ = holder; }

  /// Finishes the line that somebody other than `self` has begun, so that a new one can start.
  void interrupt(const void* self);

private:
  int fd_;
  std::string queue_;
  std::size_t written_ = 0;
  bool broken_ = false;
  const void* holder_ = nullptr;
};

}  // namespace troupe::launcher
