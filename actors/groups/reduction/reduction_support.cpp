#include "troupe/actors/groups/reduction/reduction_support.hpp"

#include <fmt/format.h>

#include "troupe/messages/base/error.hpp"

namespace troupe::groups {

namespace {

enum class element_class { boolean, integer, floating, scale, complex, none };

element_class class_of(c10::ScalarType dtype) noexcept {
  switch (dtype) {
    case c10::ScalarType::Bool: return element_class::boolean;
    case c10::ScalarType::Byte:
    case c10::ScalarType::Char:
    case c10::ScalarType::Short:
    case c10::ScalarType::Int:
    case c10::ScalarType::Long:
    case c10::ScalarType::UInt16:
    case c10::ScalarType::UInt32:
    case c10::ScalarType::UInt64: return element_class::integer;
    case c10::ScalarType::Half:
    case c10::ScalarType::BFloat16:
    case c10::ScalarType::Float:
    case c10::ScalarType::Double:
    case c10::ScalarType::Float8_e5m2:
    case c10::ScalarType::Float8_e4m3fn:
    case c10::ScalarType::Float8_e5m2fnuz:
    case c10::ScalarType::Float8_e4m3fnuz: return element_class::floating;
    case c10::ScalarType::Float8_e8m0fnu: return element_class::scale;
    case c10::ScalarType::ComplexHalf:
    case c10::ScalarType::ComplexFloat:
    case c10::ScalarType::ComplexDouble: return element_class::complex;
    default: return element_class::none;
  }
}

bool is_bitwise(reduce_op op) noexcept {
  return op == reduce_op::band || op == reduce_op::bor || op == reduce_op::bxor;
}

}  // namespace

std::string reduction_name(reduce_op op) {
  static constexpr const char* names[reduce_ops] = {"SUM", "PRODUCT", "MIN", "MAX",       "BAND",
                                                    "BOR", "BXOR",    "AVG", "PREMUL_SUM"};
  const auto place = static_cast<int>(op);
  return place < reduce_ops ? names[place] : fmt::format("operation {}", place);
}

std::string unsupported_reduction(const char* function, reduce_op op, c10::ScalarType dtype) {
  if (static_cast<int>(op) >= reduce_ops)
    return fmt::format("{}: there is no {}", function, reduction_name(op));
  const auto elements = class_of(dtype);
  if (elements == element_class::none)
    return fmt::format("{} does not support {} tensors: there is no arithmetic of them", function,
                       c10::toString(dtype));
  if (elements == element_class::complex && op != reduce_op::sum && op != reduce_op::avg &&
      op != reduce_op::premul_sum)
    return fmt::format("{} does not support {} on complex tensors", function, reduction_name(op));
  if (is_bitwise(op) && elements != element_class::boolean && elements != element_class::integer)
    return fmt::format("{}: Cannot use ReduceOp.{} with non-integral dtype {}", function,
                       reduction_name(op), c10::toString(dtype));
  if (op == reduce_op::avg && elements == element_class::boolean)
    return fmt::format("{}: Cannot use ReduceOp.AVG with Bool inputs", function);
  if (op == reduce_op::premul_sum &&
      (elements == element_class::boolean || elements == element_class::integer))
    return fmt::format(
        "{}: Cannot use ReduceOp.PREMUL_SUM with {}: a factor needs floating-point "
        "or complex elements",
        function, c10::toString(dtype));
  if (elements == element_class::scale && op != reduce_op::min && op != reduce_op::max)
    return fmt::format(
        "{}: Cannot use ReduceOp.{} with Float8_e8m0fnu, which has powers of two "
        "alone; MIN and MAX it has",
        function, reduction_name(op));
  return {};
}

void check_reduction(const char* function, reduce_op op, c10::ScalarType dtype) {
  const auto reason = unsupported_reduction(function, op, dtype);
  if (!reason.empty()) throw invalid_argument(reason);
}

}  // namespace troupe::groups
