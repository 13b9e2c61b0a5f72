#include "troupe/actors/operators/permission.hpp"

#include <ATen/core/function_schema.h>

#include <algorithm>
#include <string_view>

#include "troupe/actors/operators/overloads_internal.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::detail {

namespace {

using c10::TypeKind;

// Arguments of operators in aten that take a string: a choice among a few words, the name of a
// dimension, or a text for an error. Each was reviewed; what a later libtorch adds is not here.
constexpr std::string_view harmless_texts[] = {
    "UPLO",          "activation", "algorithm",    "api_name", "approximate", "assert_msg",
    "dim",           "dim0",       "dim1",         "dim2",     "dims",        "driver",
    "end_dim",       "equation",   "indexing",     "mode",     "names",       "norm",
    "interpolation", "ord",        "order",        "out_dim",  "outdim",      "p",
    "pad_mode",      "padding",    "padding_side", "reduce",   "side",        "start_dim",
    "rounding_mode"};

// Can values of this type name neither a file, nor a library, nor another process?
bool is_plain(const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::TensorType:
    case TypeKind::NoneType:
    case TypeKind::BoolType:
    case TypeKind::IntType:
    case TypeKind::FloatType:
    case TypeKind::ComplexType:
    case TypeKind::NumberType:
    case TypeKind::SymIntType:
    case TypeKind::SymFloatType:
    case TypeKind::SymBoolType:
    case TypeKind::ScalarTypeType:
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
    case TypeKind::QSchemeType:
    case TypeKind::DeviceObjType:
    case TypeKind::GeneratorType:
    case TypeKind::StorageType:
    case TypeKind::StreamObjType: return true;
    case TypeKind::OptionalType:
    case TypeKind::ListType:
    case TypeKind::TupleType:
      return std::ranges::all_of(type.containedTypes(),
                                 [](const auto& part) { return is_plain(*part); });
    default: return false;
  }
}

bool is_text(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::StringType) return true;
  return (type.kind() == c10::TypeKind::OptionalType || type.kind() == c10::TypeKind::ListType) &&
         std::ranges::all_of(type.containedTypes(),
                             [](const auto& part) { return is_text(*part); });
}

bool is_harmless(const c10::Argument& argument) {
  const auto& type = *argument.real_type();
  return is_plain(type) || (is_text(type) && std::ranges::find(harmless_texts, argument.name()) !=
                                                 std::end(harmless_texts));
}

std::string_view namespace_of(std::string_view name) { return name.substr(0, name.find("::")); }

}  // namespace

operator_permission::operator_permission(std::vector<std::string> also) : also_(std::move(also)) {
  for (const auto& one : also_) {
    // "mylib::*" is checked like "mylib::x".
    const bool all = one.ends_with("::*");
    try {
      parse_operator_name(all ? one.substr(0, one.size() - 1) + 'x' : one);
    } catch (const invalid_argument&) {
      throw invalid_argument("rpc_options::operators has '" + one.substr(0, 200) +
                             "', but must have names of operators, such as \"aten::from_file\", "
                             "\"mylib::step.out\" for one overload, or \"mylib::*\" for a library");
    }
  }
}

std::string operator_permission::refusal(const c10::FunctionSchema& what) const {
  const auto& name = what.name();
  const auto space = namespace_of(name);
  for (const auto& one : also_)
    if (one == name || one == name + '.' + what.overload_name() ||
        (one.ends_with("::*") && namespace_of(one) == space))
      return "";
  std::string why;
  if (space != "aten") {
    why = "only libtorch's own computations (aten::) may be called by default";
  } else {
    const auto& all = what.arguments();
    const auto suspect =
        std::ranges::find_if_not(all, [](const auto& one) { return is_harmless(one); });
    if (suspect == all.end()) return "";
    why = "its argument \"" + suspect->name() + "\" may name a file, or have a text written";
  }
  return "operator \"" + toString(what.operator_name()) +
         "\" may not be called by other nodes: " + why + "; add \"" + name +
         "\" to rpc_options::operators of the callee to allow it";
}

}  // namespace troupe::detail
