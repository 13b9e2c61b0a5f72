#include <ATen/core/jit_type.h>
#include <ATen/ops/scalar_tensor.h>

#include "troupe/actors/operators/ivalue_internal.hpp"
#include "troupe/actors/operators/value_internal.hpp"

namespace troupe::detail {

namespace {

using c10::IValue;
using c10::TypeKind;
using result = std::optional<converted>;

const c10::Type& element_of(const c10::Type& list) {
  return *list.castRaw<c10::ListType>()->getElementType();
}

bool is_optional_tensor(const c10::Type& type) {
  return type.kind() == TypeKind::OptionalType &&
         type.castRaw<c10::OptionalType>()->getElementType()->kind() == TypeKind::TensorType;
}

bool is_int(const c10::Type& type) {
  return type.kind() == TypeKind::IntType || type.kind() == TypeKind::SymIntType;
}

std::optional<at::Scalar> number_in(const op_value& given) {
  if (held<std::int64_t>(given) || held<double>(given) || held<bool>(given) ||
      held<std::complex<double>>(given))
    return given.to<at::Scalar>();
  return std::nullopt;
}

// As for an operator of Python: it has no dimensions and is no variable of autograd.
const at::Tensor* number_tensor(const op_value& given) {
  const auto* x = held<at::Tensor>(given);
  const bool fits = x && x->dim() == 0 && !x->requires_grad() && !x->is_quantized() &&
                    x->layout() == at::kStrided;
  return fits ? x : nullptr;
}

template <class T>
result as_it_is(const op_value& given) {
  const auto* x = held<T>(given);
  return x ? result(converted{IValue(*x)}) : std::nullopt;
}

template <class Enum>
result as_number_of(const op_value& given) {
  const auto* x = held<Enum>(given);
  return x ? result(converted{IValue(static_cast<std::int64_t>(*x))}) : std::nullopt;
}

result to_tensor(const op_value& given) {
  if (const auto* x = held<at::Tensor>(given)) return converted{IValue(*x)};
  const auto number = number_in(given);
  if (!number) return std::nullopt;
  auto tensor = at::scalar_tensor(*number, at::TensorOptions(number->type()));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return converted{IValue(std::move(tensor)), distance::tensor};
}

result to_scalar(const op_value& given) {
  if (const auto number = number_in(given)) return converted{IValue(*number), distance::number};
  if (const auto* x = number_tensor(given)) return converted{IValue(x->item()), distance::item};
  return std::nullopt;
}

result to_int(const op_value& given) {
  if (const auto* x = held<std::int64_t>(given)) return converted{IValue(*x)};
  if (const auto* x = number_tensor(given); x && at::isIntegralType(x->scalar_type(), false))
    return converted{IValue(x->item().toLong()), distance::item};
  return std::nullopt;
}

result to_float(const op_value& given) {
  if (const auto* x = held<double>(given)) return converted{IValue(*x)};
  if (const auto* x = held<std::int64_t>(given))
    return converted{IValue(static_cast<double>(*x)), distance::widened};
  if (const auto* x = number_tensor(given); x && at::isFloatingType(x->scalar_type()))
    return converted{IValue(x->item().toDouble()), distance::item};
  return std::nullopt;
}

result to_complex(const op_value& given) {
  const auto number = number_in(given);
  if (!number || number->isBoolean()) return std::nullopt;
  return converted{IValue(number->toComplexDouble()),
                   number->isComplex() ? distance::none : distance::widened};
}

result to_device(const op_value& given) {
  if (held<device_id>(given)) return converted{IValue(given.to<at::Device>())};
  const auto* text = held<std::string>(given);
  if (!text) return std::nullopt;
  try {
    return converted{IValue(at::Device(*text)), distance::widened};
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

template <class To, class From>
c10::List<To> list_of(const std::vector<From>& xs) {
  c10::List<To> out;
  out.reserve(xs.size());
  for (const From x : xs) out.push_back(x);
  return out;
}

template <class T>
IValue scalars_of(const std::vector<T>& xs) {
  c10::impl::GenericList out(c10::NumberType::get());
  out.reserve(xs.size());
  for (const T x : xs) out.push_back(IValue(x));
  return out;
}

result to_tensors(const op_value& given) {
  if (const auto* xs = held<std::vector<at::Tensor>>(given)) {
    for (const auto& x : *xs)
      if (!x.defined()) return std::nullopt;
    return converted{IValue(*xs)};
  }
  const auto* xs = held<std::vector<std::optional<at::Tensor>>>(given);
  if (!xs) return std::nullopt;
  std::vector<at::Tensor> out;
  for (const auto& x : *xs) {
    if (!x || !x->defined()) return std::nullopt;
    out.push_back(*x);
  }
  return converted{IValue(std::move(out)), distance::number};
}

result to_optional_tensors(const op_value& given) {
  c10::List<std::optional<at::Tensor>> out;
  const auto add = [&](const std::optional<at::Tensor>& x) {
    out.push_back(x && x->defined() ? x : std::nullopt);
  };
  if (const auto* xs = held<std::vector<std::optional<at::Tensor>>>(given)) {
    for (const auto& x : *xs) add(x);
    return converted{IValue(out)};
  }
  if (const auto* xs = held<std::vector<at::Tensor>>(given)) {
    for (const auto& x : *xs) add(x);
    return converted{IValue(out), distance::number};
  }
  return std::nullopt;
}

result to_list(const op_value& given, const c10::Type& element) {
  if (is_optional_tensor(element)) return to_optional_tensors(given);
  const auto* ints = held<std::vector<std::int64_t>>(given);
  const auto* floats = held<std::vector<double>>(given);
  switch (element.kind()) {
    case TypeKind::TensorType: return to_tensors(given);
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      if (ints) return converted{IValue(*ints)};
      break;
    case TypeKind::FloatType:
      if (floats) return converted{IValue(*floats)};
      if (ints) return converted{IValue(list_of<double>(*ints)), distance::widened};
      break;
    case TypeKind::BoolType:
      if (const auto* xs = held<std::vector<bool>>(given))
        return converted{IValue(list_of<bool>(*xs))};
      break;
    case TypeKind::NumberType:
      if (ints) return converted{scalars_of(*ints), distance::number};
      if (floats) return converted{scalars_of(*floats), distance::number};
      break;
    default: break;
  }
  return std::nullopt;
}

// A list of one value as often as the schema says: `int[2] stride` may be given as 1.
result repeated(const op_value& given, const c10::Type& element, std::int32_t times) {
  const auto count = static_cast<std::size_t>(times);
  op_value list;
  if (const auto* x = held<std::int64_t>(given))
    list = std::vector(count, *x);
  else if (const auto* x = held<double>(given))
    list = std::vector(count, *x);
  else if (const auto* x = held<bool>(given))
    list = std::vector(count, *x);
  auto out = list.none() ? std::nullopt : to_list(list, element);
  if (out) out->cost = std::max(out->cost, distance::repeated);
  return out;
}

result convert(const op_value& given, const c10::Type& type, std::optional<std::int32_t> times) {
  switch (type.kind()) {
    case TypeKind::OptionalType:
      if (given.none()) return converted{};
      return convert(given, *type.castRaw<c10::OptionalType>()->getElementType(), times);
    case TypeKind::TensorType: return to_tensor(given);
    case TypeKind::NumberType: return to_scalar(given);
    case TypeKind::IntType:
    case TypeKind::SymIntType: return to_int(given);
    case TypeKind::FloatType:
    case TypeKind::SymFloatType: return to_float(given);
    case TypeKind::BoolType:
    case TypeKind::SymBoolType: return as_it_is<bool>(given);
    case TypeKind::ComplexType: return to_complex(given);
    case TypeKind::StringType: return as_it_is<std::string>(given);
    case TypeKind::DeviceObjType: return to_device(given);
    case TypeKind::ScalarTypeType: return as_number_of<at::ScalarType>(given);
    case TypeKind::LayoutType: return as_number_of<at::Layout>(given);
    case TypeKind::MemoryFormatType: return as_number_of<at::MemoryFormat>(given);
    case TypeKind::ListType: {
      auto out = to_list(given, element_of(type));
      return out || !times ? out : repeated(given, element_of(type), *times);
    }
    default: return std::nullopt;
  }
}

op_value from_list(const IValue& value) {
  if (value.isTensorList()) return value.toTensorVector();
  if (value.isIntList()) return value.toIntVector();
  if (value.isDoubleList()) return value.toDoubleVector();
  if (value.isBoolList()) {
    const auto xs = value.toBoolList();
    return std::vector<bool>(xs.begin(), xs.end());
  }
  if (value.isOptionalTensorList()) return value.toOptionalTensorVector();
  throw encode_error("a result of an operator, a " + value.tagKind() + ", cannot be sent");
}

}  // namespace

result to_ivalue(const op_value& given, const c10::Argument& parameter) {
  return convert(given, *parameter.real_type(), parameter.N());
}

bool can_travel(const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::TensorType:
    case TypeKind::NumberType:
    case TypeKind::IntType:
    case TypeKind::SymIntType:
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
    case TypeKind::ComplexType:
    case TypeKind::StringType:
    case TypeKind::DeviceObjType:
    case TypeKind::ScalarTypeType:
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType: return true;
    case TypeKind::OptionalType:
      return can_travel(*type.castRaw<c10::OptionalType>()->getElementType());
    case TypeKind::ListType: {
      const auto& element = element_of(type);
      return is_int(element) || is_optional_tensor(element) ||
             element.kind() == TypeKind::TensorType || element.kind() == TypeKind::FloatType ||
             element.kind() == TypeKind::BoolType || element.kind() == TypeKind::NumberType;
    }
    default: return false;
  }
}

op_value from_ivalue(const IValue& value, const c10::Type& type) {
  if (value.isNone()) return {};
  switch (type.kind()) {
    case TypeKind::OptionalType:
      return from_ivalue(value, *type.castRaw<c10::OptionalType>()->getElementType());
    case TypeKind::ScalarTypeType: return value.toScalarType();
    case TypeKind::LayoutType: return value.toLayout();
    case TypeKind::MemoryFormatType: return value.toMemoryFormat();
    default: break;
  }
  if (value.isTensor()) return value.toTensor();
  if (value.isBool()) return value.toBool();
  if (value.isString()) return value.toStringRef();
  if (value.isDevice()) return value.toDevice();
  if (value.isScalar()) return value.toScalar();
  return from_list(value);
}

}  // namespace troupe::detail
