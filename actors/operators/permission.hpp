#pragma once

#include <string>
#include <vector>

namespace c10 {
struct FunctionSchema;
}

namespace troupe::detail {

/// Decides which operators other nodes may call here by name.
///
/// By default only libtorch's own computations: operators of the namespace aten whose arguments are
/// all tensors, numbers, dtypes and the like, or strings that are known to be no more than a choice
/// or the name of a dimension. All others may touch files, load code or reach other processes, and
/// must be allowed by the program.
class operator_permission {
public:
  operator_permission() = default;

  /// `also` is rpc_options::operators. Throws invalid_argument for an entry that names no
  /// operators.
  explicit operator_permission(std::vector<std::string> also);

  /// The reason why `what` may not be called; empty: it may.
  std::string refusal(const c10::FunctionSchema& what) const;

private:
  std::vector<std::string> also_;
};

}  // namespace troupe::detail
