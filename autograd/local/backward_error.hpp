#pragma once

#include <exception>
#include <string>

#include "troupe/messages/base/error.hpp"

namespace troupe::autograd {

/// What a node, a hook or a sink has thrown in a backward pass. Its fault has code, node, function
/// and type of the cause (describe), and the operation in its text.
class backward_error : public error {
public:
  /// `operation` is the name of the node; empty: it is not known.
  backward_error(std::string operation, std::exception_ptr cause);

  const std::string& operation() const noexcept { return operation_; }
  /// The exception itself, as it was thrown; never null.
  const std::exception_ptr& cause() const noexcept { return cause_; }

private:
  std::string operation_;
  std::exception_ptr cause_;
};

}  // namespace troupe::autograd
