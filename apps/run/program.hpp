#pragma once

#include <stdexcept>
#include <string>

namespace troupe::launcher {

/// The program cannot be started; `code` is what a shell would exit with.
class program_error : public std::runtime_error {
public:
  program_error(const std::string& text, int code) : std::runtime_error(text), code_(code) {}

  int code() const noexcept { return code_; }

private:
  int code_;
};

/// The path of `name`, looked for in PATH when it has no slash. Throws program_error when there is
/// no such file (127) or it cannot be run (126).
std::string find_program(const std::string& name);

}  // namespace troupe::launcher
