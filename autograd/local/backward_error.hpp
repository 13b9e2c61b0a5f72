#pragma once

#include <exception>
#include <string>

#include "troupe/messages/base/error.hpp"

namespace troupe::autograd {

/// An error that a node of the graph, a hook or a sink has thrown in a backward pass. Its fault has
/// the code, node, function and type of the cause (describe), and names the operation in its text.
class backward_error : public error {
public:
  /// `operation`: the name of the node of the graph; empty: not known.
  backward_error(std::string operation, std::exception_ptr cause);

  const std::string& operation() const noexcept { return operation_; }
  /// The exception as it was thrown; never null.
  const std::exception_ptr& cause() const noexcept { return cause_; }

private:
  std::string operation_;
  std::exception_ptr cause_;
};

}  // namespace troupe::autograd
