#pragma once

#include <string>
#include <vector>

namespace c10 {
struct FunctionSchema;
}

namespace troupe::detail {

/// Which operators other nodes may call here by name.
///
/// Closed by default: libtorch's own computations may be called, which are those of the namespace
/// aten whose every argument is a tensor, a number, a dtype and the like, or a text that is known
/// to be no more than a choice or a name of a dimension. Whatever else there is may touch files,
/// load code or reach other processes, and needs the program's word.
class operator_permission {
public:
  operator_permission() = default;

  /// `also` is rpc_options::operators. Throws invalid_argument for what names no operators.
  explicit operator_permission(std::vector<std::string> also);

  /// Why `what` may not be called; empty: it may.
  std::string refusal(const c10::FunctionSchema& what) const;

private:
  std::vector<std::string> also_;
};

}  // namespace troupe::detail
