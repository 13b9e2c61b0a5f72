#pragma once

#include <poll.h>

#include <string>
#include <vector>

namespace troupe::launcher {

/// Standard input for rank 0. What is no terminal is handed over as it is; a terminal cannot be
/// read by a process group in the background, so the launcher reads it and passes it on by a pipe.
class terminal_input {
public:
  terminal_input();
  terminal_input(const terminal_input&) = delete;
  terminal_input& operator=(const terminal_input&) = delete;
  ~terminal_input();

  /// What rank 0 shall read.
  int for_child() const { return child_end_; }

  /// Call when rank 0 has been started.
  void release_child_end();

  /// Adds the descriptors to poll.
  void add_to(std::vector<pollfd>& waits) const;

  /// Moves what can be moved. Call after poll.
  void pump();

private:
  void stop();

  int child_end_ = 0;
  int our_end_ = -1;  ///< -1: nothing to pass on
  std::string typed_;
};

}  // namespace troupe::launcher
