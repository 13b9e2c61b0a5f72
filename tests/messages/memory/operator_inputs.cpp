#include "tests/messages/memory/operator_inputs.hpp"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/zeros.h>

#include <string>
#include <vector>

namespace troupe::test {

namespace {

struct recipe {
  std::vector<std::int64_t> shape;  // 0: the size that is asked for
  c10::ScalarType type;
  std::vector<std::int64_t> index_shape;  // of arguments that are called like an index
};

const std::vector<recipe>& recipes() {
  static const std::vector<recipe> all = {
      {{4, 0}, at::kFloat, {4, 4}},    {{4, 0}, at::kFloat, {4}},
      {{2, 4, 8, 0}, at::kFloat, {4}}, {{4, 0}, at::kLong, {4}},
      {{4, 0}, at::kBool, {4}},        {{0}, at::kFloat, {4}},
      {{2, 4, 0}, at::kFloat, {4}},    {{4, 0}, at::kComplexFloat, {4}},
      {{4, 4}, at::kFloat, {4}},       {{2, 4, 4, 8, 0}, at::kFloat, {4}},
  };
  return all;
}

bool is_index(const std::string& name) {
  for (const auto* one : {"index", "indices", "target", "repeats", "lengths", "ind"})
    if (name.find(one) != std::string::npos) return true;
  return false;
}

/// Makes the arguments of one operator.
class inputs {
public:
  inputs(const recipe& how, std::int64_t size, const tensor_maker& make)
      : how_(how), size_(size), make_(make) {}

  std::optional<c10::IValue> value(const c10::Argument& of) {
    if (const auto given = of.default_value(); given && !given->isNone()) return *given;
    return value(*of.type(), of.name(), of.N());
  }

private:
  at::Tensor tensor(const std::string& name) {
    at::Tensor plain;
    if (name == "offsets") {  // libtorch reads beyond the end of others
      plain = at::zeros({4}, at::kLong);
    } else if (is_index(name)) {
      plain = at::zeros(how_.index_shape, at::kLong);
    } else {
      auto shape = how_.shape;
      std::int64_t count = 1;
      for (auto& one : shape) count *= one = one == 0 ? size_ : one;
      // Between 0 and 1, where most functions are defined; no two of one tensor are equal.
      const auto values = at::linspace(0.1, 0.9, count);
      plain = (how_.type == at::kLong ? values.mul(10) : values).to(how_.type).view(shape);
    }
    return make_(plain);
  }

  std::int64_t number(const std::string& name) const {
    if (name == "dim1" || name == "end_dim" || name == "start_dim") return 1;
    if (name.starts_with("dim") || name == "axis" || name == "diagonal") return 0;
    return 1;
  }

  std::vector<std::int64_t> numbers(const std::string& name, std::optional<std::int32_t> n) const {
    if (name == "size" || name == "shape" || name == "self_size" || name == "input_sizes") {
      auto shape = how_.shape;
      for (auto& one : shape) one = one == 0 ? size_ : one;
      return shape;
    }
    if (n)
      return std::vector<std::int64_t>(static_cast<std::size_t>(*n), name == "padding" ? 0 : 1);
    if (name == "dims" && how_.shape.size() == 2) return {0, 1};
    return {number(name)};
  }

  std::optional<c10::IValue> value(const c10::Type& type, const std::string& name,
                                   std::optional<std::int32_t> n) {
    switch (type.kind()) {
      case c10::TypeKind::TensorType: return tensor(name);
      case c10::TypeKind::OptionalType: return c10::IValue();
      case c10::TypeKind::NumberType:
        return how_.type == at::kLong || how_.type == at::kBool ? c10::IValue(1) : c10::IValue(0.5);
      case c10::TypeKind::IntType:
      case c10::TypeKind::SymIntType: return number(name);
      case c10::TypeKind::FloatType: return 0.5;
      case c10::TypeKind::BoolType: return false;
      case c10::TypeKind::StringType: return "none";
      case c10::TypeKind::DeviceObjType: return c10::Device(at::kCPU);
      case c10::TypeKind::ListType: return list(type, name, n);
      default: return std::nullopt;
    }
  }

  std::optional<c10::IValue> list(const c10::Type& type, const std::string& name,
                                  std::optional<std::int32_t> n) {
    switch (type.containedType(0)->kind()) {
      case c10::TypeKind::TensorType: return std::vector<at::Tensor>{tensor(name), tensor(name)};
      case c10::TypeKind::OptionalType:
        return c10::List<std::optional<at::Tensor>>({make_(at::zeros({4}, at::kLong))});
      case c10::TypeKind::IntType:
      case c10::TypeKind::SymIntType: return numbers(name, n);
      case c10::TypeKind::FloatType: return std::vector<double>{0.5};
      case c10::TypeKind::BoolType: return std::vector<bool>(n.value_or(1), true);
      default: return std::nullopt;
    }
  }

  const recipe& how_;
  const std::int64_t size_;
  const tensor_maker& make_;
};

}  // namespace

int input_recipes() { return static_cast<int>(recipes().size()); }

std::optional<torch::jit::Stack> make_inputs(const c10::FunctionSchema& schema, int recipe,
                                             std::int64_t size, const tensor_maker& make) {
  inputs from(recipes().at(static_cast<std::size_t>(recipe)), size, make);
  torch::jit::Stack out;
  for (const auto& argument : schema.arguments()) {
    auto value = from.value(argument);
    if (!value) return std::nullopt;
    out.push_back(std::move(*value));
  }
  return out;
}

}  // namespace troupe::test
