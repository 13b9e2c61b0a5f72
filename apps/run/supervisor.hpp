#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "troupe/apps/run/job.hpp"
#include "troupe/apps/run/job_output.hpp"
#include "troupe/apps/run/options.hpp"
#include "troupe/apps/run/terminal_input.hpp"

namespace troupe::launcher {

/// Starts the ranks, passes on their output and the user's signals, and ends them all when one
/// fails. One thread; everything waits in one poll. Orphans must fall to this process, and SIGCHLD
/// be blocked.
class supervisor {
public:
  /// `path` is the program. Signals to pass on come as bytes from `control`; its end means that the
  /// launcher itself was killed. The references must outlive the supervisor.
  supervisor(const run_options& options, const job& job, std::string path, int control);
  supervisor(const supervisor&) = delete;
  supervisor& operator=(const supervisor&) = delete;
  ~supervisor();

  /// Runs the job to its end and returns the exit code; no process of it is left then. Throws
  /// program_error or std::system_error when a rank cannot be started.
  int run();

private:
  using clock = std::chrono::steady_clock;

  /// Each stage but the first ends at `deadline_` at the latest.
  enum class stage {
    running,
    lingering,  ///< all ranks have ended, other processes may still finish their output
    ending,     ///< everybody has been asked to end
    killing,
    gave_up,  ///< a process could not be killed
  };

  struct rank {
    int number;
    pid_t pid;
    std::optional<int> status;  ///< once it has ended
  };

  void start_ranks();

  /// Waits until the reader has taken the output; after a signal to stop, no longer than the grace.
  void write_rest();

  void wait_for_events();
  int poll_timeout() const;
  void read_control();
  void reap();
  void report(const std::vector<rank>& failed);
  void interrupt(int signal);
  void ask_to_end(int signal);
  void enter(stage next, std::chrono::milliseconds limit);
  void deadline_passed();
  void begin_killing();
  void signal_all(int signal);
  std::size_t running() const;
  bool over() const;
  int exit_code() const;

  const run_options& options_;
  const job& job_;
  const std::string path_;
  int control_;       ///< -1 once it has ended
  int child_events_;  ///< readable when a child has ended
  job_output output_;
  terminal_input input_;
  std::vector<rank> ranks_;
  bool children_left_ = true;
  stage stage_ = stage::running;
  clock::time_point deadline_{};
  clock::time_point last_signal_{};
  int interrupted_by_ = 0;
  int asked_by_ = 0;  ///< the last signal that asked everybody to end
  int failure_ = 0;   ///< exit code of the rank that failed first
};

}  // namespace troupe::launcher
