#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "troupe/actors/operators/value.hpp"

namespace troupe::detail {

/// An operator with the arguments for it, in the order of its schema.
struct op_call {
  c10::OperatorHandle op;
  std::vector<c10::IValue> stack;
};

/// Parses "aten::add.Tensor" or "aten::add". Throws invalid_argument for anything else.
c10::OperatorName parse_operator_name(std::string_view name);

/// The operators of that name: one if the name has an overload, else all overloads. Throws
/// unknown_function, with similar names, when this process has none.
std::vector<c10::OperatorHandle> find_operators(const c10::OperatorName& name);

/// The overload that `given` fits best: with the cheapest conversions, then the fewest defaults,
/// then the first by name. Throws invalid_argument, which lists the schemas, when it fits none.
op_call choose_overload(const c10::OperatorName& name, const op_arguments& given);

}  // namespace troupe::detail
