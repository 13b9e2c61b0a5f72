#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace troupe::test {

/// True once `condition` holds; false when it does not within ten seconds.
bool soon(const std::function<bool()>& condition);

/// What a launcher that has ended left behind.
struct launch_result {
  int code = -1;  ///< exit code, or 128 + signal
  std::string out;
  std::string err;

  std::vector<std::string> out_lines() const;
};

/// One run of the real troupe-run. Its processes carry a mark in their environment, by which they
/// are found wherever they have gone; what is left of them is killed at the end. The mark,
/// TROUPE_TEST_MARK, is the path of a folder that they may use.
class launch {
public:
  /// `environment` is added to ours, as NAME=value. Standard input is `input`.
  explicit launch(std::vector<std::string> arguments, std::vector<std::string> environment = {},
                  const std::string& input = "");
  launch(const launch&) = delete;
  launch& operator=(const launch&) = delete;
  ~launch();

  pid_t pid() const { return pid_; }

  void signal(int number) const;

  /// What has come out so far.
  std::string out() const;
  std::string err() const;

  /// Waits for the launcher's end, at most half a minute.
  launch_result wait();

  /// The processes of this run that live, the launcher's own included.
  std::vector<pid_t> processes() const;

private:
  std::string mark_;
  std::string folder_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

/// Runs troupe-run to its end.
launch_result run_launcher(std::vector<std::string> arguments,
                           std::vector<std::string> environment = {},
                           const std::string& input = "");

/// The arguments for `ranks` ranks of a shell that runs `script`.
std::vector<std::string> shell(int ranks, const std::string& script);

}  // namespace troupe::test
