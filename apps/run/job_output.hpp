#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/apps/run/line_stream.hpp"
#include "troupe/apps/run/options.hpp"
#include "troupe/apps/run/output_sink.hpp"

namespace troupe::launcher {

/// Carries the output of all ranks to the launcher's own.
class job_output {
public:
  explicit job_output(const run_options& options);
  job_output(const job_output&) = delete;
  job_output& operator=(const job_output&) = delete;
  ~job_output();

  /// Takes over the two non-blocking descriptors of rank `rank`, and closes them at their end.
  void add(int rank, int output, int errors);

  /// Adds the descriptors to poll.
  void add_to(std::vector<pollfd>& waits) const;

  /// Reads what is there, as far as the launcher's own outputs keep up, and writes what they take.
  void pump();

  /// Reads the rest of the output of `rank`, so that the next line of the launcher follows it.
  void drain(int rank);

  /// Reads everything that is there and shows last lines without a newline.
  void finish();

  /// Puts a line of the launcher itself on standard error.
  void say(std::string_view line);

  /// True while something waits to be written.
  bool pending() const { return out_.pending() + err_.pending() > 0; }

private:
  struct source {
    int rank;
    int fd;
    output_sink* to;
    std::unique_ptr<line_stream> lines;
  };

  void add_source(int rank, int fd, output_sink& to);
  bool read_once(source& from);
  void close_source(source& from);
  output_sink& errors() { return one_ ? out_ : err_; }

  bool prefix_;
  colour_mode colour_;
  output_sink out_;
  output_sink err_;
  bool one_;  ///< both are the same terminal or file, and an unfinished line is in the way of both
  std::vector<source> sources_;
};

}  // namespace troupe::launcher
