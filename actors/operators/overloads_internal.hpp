#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "troupe/actors/operators/value.hpp"

namespace troupe::detail {

/// An operator with the arguments for it, in the order of its schema.
struct op_call {
  c10::OperatorHandle op;
  std::vector<c10::IValue> stack;
};

/// "aten::add.Tensor" or "aten::add" in parts. Throws invalid_argument for anything else.
c10::OperatorName parse_operator_name(std::string_view name);

/// What the name means: one operator if it has an overload, else all that are called so. Throws
/// unknown_function, with names near to it, when this process has none.
std::vector<c10::OperatorHandle> find_operators(const c10::OperatorName& name);

/// Of those the one that `given` fits best: with the fewest conversions, then the fewest defaults,
/// then the first by name. Throws invalid_argument, which lists their schemas, when it fits none.
op_call choose_overload(const c10::OperatorName& name, const op_arguments& given);

}  // namespace troupe::detail
