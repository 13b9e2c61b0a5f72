// Which operator is meant by a name and arguments, tried on all that libtorch has.
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include <random>

#include "troupe/actors/operators/ivalue_internal.hpp"
#include "troupe/actors/operators/operator_call.hpp"
#include "troupe/actors/operators/overloads_internal.hpp"
#include "troupe/actors/operators/value_internal.hpp"
#include "troupe/messages/codec/archive.hpp"
#include "troupe/messages/tensor/tensor_reader.hpp"
#include "troupe/messages/tensor/tensor_writer.hpp"

namespace troupe::test {
namespace {

using c10::TypeKind;
using detail::op_arguments;
using testing::HasSubstr;

std::vector<c10::OperatorHandle> all_operators() {
  std::vector<c10::OperatorHandle> all;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames())
    if (auto op = c10::Dispatcher::singleton().findSchema(name)) all.push_back(*op);
  return all;
}

std::string name_of(const c10::OperatorHandle& op) { return toString(op.operator_name()); }

detail::op_call choose(const std::string& name, const op_arguments& given) {
  return detail::choose_overload(detail::parse_operator_name(name), given);
}

std::vector<op_value> values() {
  const auto x = at::ones({2, 2});
  return {op_value(),
          x,
          at::tensor(3),
          at::tensor(1.5),
          at::ones({}).requires_grad_(),
          at::quantize_per_tensor(x, 0.1, 3, at::kQInt8),
          x.to_sparse(),
          0,
          std::numeric_limits<std::int64_t>::min(),
          std::numeric_limits<std::int64_t>::max(),
          -1.5,
          std::numeric_limits<double>::quiet_NaN(),
          true,
          std::complex<double>(1, 2),
          "",
          "cpu",
          "cuda:99999",
          std::string(100'000, 'x'),
          at::kFloat,
          at::kSparse,
          at::MemoryFormat::ChannelsLast,
          at::Device(at::kCUDA, 3),
          std::vector<std::int64_t>{},
          std::vector<std::int64_t>{1, INT64_MIN},
          std::vector<double>{0.5},
          std::vector<bool>{true, false},
          std::vector<at::Tensor>{},
          std::vector<at::Tensor>{x, x},
          std::vector<at::Tensor>{x, {}},
          std::vector<std::optional<at::Tensor>>{x, std::nullopt}};
}

// One that a parameter of this type takes as it is; empty: there is none.
std::optional<op_value> value_for(const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::TensorType: return at::ones({2});
    case TypeKind::NumberType: return 2.5;
    case TypeKind::IntType:
    case TypeKind::SymIntType: return 2;
    case TypeKind::FloatType: return 0.5;
    case TypeKind::BoolType: return true;
    case TypeKind::StringType: return "sum";
    case TypeKind::DeviceObjType: return at::kCPU;
    case TypeKind::ScalarTypeType: return at::kDouble;
    case TypeKind::LayoutType: return at::kStrided;
    case TypeKind::MemoryFormatType: return at::MemoryFormat::Contiguous;
    case TypeKind::OptionalType:
      return value_for(*type.castRaw<c10::OptionalType>()->getElementType());
    case TypeKind::ListType: {
      const auto& element = *type.castRaw<c10::ListType>()->getElementType();
      switch (element.kind()) {
        case TypeKind::TensorType: return std::vector{at::ones({2})};
        case TypeKind::NumberType:
        case TypeKind::FloatType: return std::vector{0.5};
        case TypeKind::IntType:
        case TypeKind::SymIntType: return std::vector{1, 2};
        case TypeKind::BoolType: return std::vector{true};
        case TypeKind::OptionalType:
          if (element.str() != "Tensor?") return std::nullopt;
          return std::vector<std::optional<at::Tensor>>{at::ones({2}), std::nullopt};
        default: return std::nullopt;
      }
    }
    default: return std::nullopt;
  }
}

// As libtorch itself checks them before it runs an operator for TorchScript, which, unlike Python,
// has no bool for a Scalar.
void expect_accepted(const detail::op_call& call) {
  auto stack = call.stack;
  for (std::size_t i = 0; i < stack.size(); ++i)
    if (stack[i].isBool() && call.op.schema().arguments()[i].type()->str().starts_with("Scalar"))
      stack[i] = static_cast<std::int64_t>(stack[i].toBool());
  EXPECT_NO_THROW(call.op.schema().checkAndNormalizeInputs(stack)) << call.op.schema();
}

TEST(operator_overloads, take_what_their_schemas_declare) {
  std::size_t fitting = 0, refused = 0;
  for (const auto& op : all_operators()) {
    const auto& schema = op.schema();
    if (name_of(op) == "static_runtime::clamp_nan_to_num") continue;  // calls two of them "posinf"
    op_arguments given;
    bool sendable = !schema.is_vararg() && !schema.is_varret();
    for (const auto& one : schema.returns()) sendable &= detail::can_travel(*one.real_type());
    for (const auto& one : schema.arguments()) {
      const auto value = value_for(*one.real_type());
      if (!value && one.default_value()) continue;
      sendable &= value.has_value();
      if (value) given.named.emplace_back(one.name(), *value);
    }
    try {
      const auto call = choose(name_of(op), given);
      EXPECT_TRUE(sendable) << schema;
      EXPECT_EQ(call.op, op);
      expect_accepted(call);
      ++fitting;
    } catch (const invalid_argument& e) {
      EXPECT_FALSE(sendable) << e.what();
      ++refused;
    }
  }
  EXPECT_GT(fitting, 3'000u);
  EXPECT_LT(refused, 300u);
}

TEST(operator_overloads, are_found_by_what_one_of_them_takes) {
  for (const auto& op : all_operators()) {
    op_arguments given;
    for (const auto& one : op.schema().arguments()) {
      if (one.default_value()) continue;
      const auto value = value_for(*one.real_type());
      if (!value) break;
      if (one.kwarg_only())
        given.named.emplace_back(one.name(), *value);
      else
        given.positional.push_back(*value);
    }
    try {
      choose(name_of(op), given);
    } catch (const invalid_argument&) {
      continue;
    }
    const auto call = choose(op.operator_name().name, given);
    EXPECT_EQ(call.op.operator_name().name, op.operator_name().name);
    expect_accepted(call);
  }
}

TEST(operator_overloads, refuse_or_take_whatever_is_given) {
  const auto pool = values();
  std::mt19937 random(7);
  const auto any = [&] { return pool[random() % pool.size()]; };
  std::size_t fitting = 0;
  for (const auto& op : all_operators())
    for (int round = 0; round < 12; ++round) {
      op_arguments given;
      const auto& parameters = op.schema().arguments();
      const auto count = parameters.empty() ? 0 : random() % (parameters.size() + 1);
      for (std::size_t i = 0; i < count; ++i) given.positional.push_back(any());
      for (std::size_t i = count; i < parameters.size(); ++i)
        if (random() % 2) given.named.emplace_back(parameters[i].name(), any());
      if (random() % 8 == 0) given.named.emplace_back("nothing", any());
      const auto name = round % 2 ? op.operator_name().name : name_of(op);
      try {
        expect_accepted(choose(name, given));
        ++fitting;
      } catch (const invalid_argument&) {
      }
    }
  EXPECT_GT(fitting, 100u);
}

TEST(operator_overloads, are_chosen_by_what_is_given) {
  const auto x = at::ones({2}), zero_dimensional = at::tensor(2);
  const auto chosen = [](const std::string& name, op_arguments given) {
    return name_of(choose(name, given).op);
  };
  EXPECT_EQ(chosen("aten::add", {{x, x}, {}}), "aten::add.Tensor");
  EXPECT_EQ(chosen("aten::add", {{x, 2}, {}}), "aten::add.Scalar");
  EXPECT_EQ(chosen("aten::add", {{x, zero_dimensional}, {}}), "aten::add.Tensor");
  EXPECT_EQ(chosen("aten::add", {{2, x}, {}}), "aten::add.Tensor");
  EXPECT_EQ(chosen("aten::add", {{x, x}, {{"out", x}}}), "aten::add.out");
  EXPECT_EQ(chosen("aten::max", {{x}, {}}), "aten::max");
  EXPECT_EQ(chosen("aten::max", {{x, 0}, {}}), "aten::max.dim");
  EXPECT_EQ(chosen("aten::max", {{x, x}, {}}), "aten::max.other");
  EXPECT_EQ(chosen("aten::sum", {{x}, {}}), "aten::sum");
  EXPECT_EQ(chosen("aten::sum", {{x, 0}, {}}), "aten::sum.dim_IntList");
  EXPECT_EQ(chosen("aten::sum", {{x, op_value()}, {}}), "aten::sum.dim_IntList");
  EXPECT_EQ(chosen("aten::sum", {{x, std::vector{0}, true}, {}}), "aten::sum.dim_IntList");
  EXPECT_EQ(chosen("aten::pow", {{x, 2}, {}}), "aten::pow.Tensor_Scalar");
  EXPECT_EQ(chosen("aten::pow", {{2, x}, {}}), "aten::pow.Scalar");
  EXPECT_EQ(chosen("aten::arange", {{5}, {}}), "aten::arange");
  EXPECT_EQ(chosen("aten::arange", {{1, 5}, {}}), "aten::arange.start");
  EXPECT_EQ(chosen("aten::arange", {{1, 5, 2}, {}}), "aten::arange.start_step");
  EXPECT_EQ(chosen("aten::to", {{x, at::kDouble}, {}}), "aten::to.dtype");
  EXPECT_EQ(chosen("aten::to", {{x, at::kCPU, at::kDouble}, {}}), "aten::to.device");
  EXPECT_EQ(chosen("aten::to", {{x, "cpu", at::kDouble}, {}}), "aten::to.device");
  EXPECT_EQ(chosen("aten::to", {{x, x}, {}}), "aten::to.other");
  EXPECT_EQ(chosen("aten::split", {{x, 1}, {}}), "aten::split.Tensor");
  EXPECT_EQ(chosen("aten::split", {{x, std::vector{1, 1}}, {}}), "aten::split.sizes");
  EXPECT_EQ(chosen("aten::where", {{x, 1.0, x}, {}}), "aten::where.ScalarSelf");
  EXPECT_EQ(chosen("aten::clamp", {{x}, {{"min", 0}}}), "aten::clamp");
  EXPECT_EQ(chosen("aten::clamp", {{x}, {{"min", x}}}), "aten::clamp.Tensor");
  EXPECT_EQ(chosen("aten::std", {{x, true}, {}}), "aten::std");
  EXPECT_EQ(chosen("aten::std", {{x, 0}, {}}), "aten::std.correction");
  EXPECT_EQ(chosen("aten::div", {{x, 2}, {{"rounding_mode", "floor"}}}), "aten::div.Scalar_mode");
  EXPECT_EQ(chosen("aten::_foreach_add", {{std::vector{x}, std::vector{2}}, {}}),
            "aten::_foreach_add.ScalarList");
}

TEST(operator_overloads, refuse_names_and_numbers_of_arguments_that_nobody_means) {
  op_arguments many;
  many.positional.resize(100'000);
  many.named.resize(100'000, {std::string(1'000, 'x'), op_value()});
  try {
    choose("aten::add", many);
    ADD_FAILURE();
  } catch (const invalid_argument& e) {
    EXPECT_THAT(e.what(), HasSubstr("and 200000 were given"));
    EXPECT_LT(std::string(e.what()).size(), 5'000u);
  }
  for (const std::string& bad : {std::string("a"), std::string(1 << 20, ':'), std::string(5, '\0'),
                                 std::string("aten::\xff"), "x::" + std::string(1 << 20, 'y')})
    EXPECT_THROW(detail::run_operator(bad, {}, {}), invalid_argument);
  try {
    detail::run_operator(std::string(1 << 20, 'x'), {}, {});
    ADD_FAILURE();
  } catch (const invalid_argument& e) {
    EXPECT_LT(std::string(e.what()).size(), 1'000u);
  }
}

TEST(operator_overloads, throw_what_operators_throw_as_an_error_with_their_name) {
  try {
    detail::run_operator("aten::mm", {at::ones({2}), at::ones({2})}, {});
    ADD_FAILURE();
  } catch (const remote_error& e) {
    EXPECT_EQ(e.function(), "aten::mm");
    EXPECT_EQ(e.fault().type, "c10::Error");
  }
}

// Writes with an encoder and reads with a decoder, as a message of its own would.
op_value through_bytes(const std::function<void(encoder&)>& write) {
  encoder out(nullptr, nullptr);
  write(out);
  decoder in(out.bytes(), nullptr, nullptr);
  auto value = in.get<op_value>();
  in.expect_end();
  return value;
}

TEST(operator_values, travel_as_they_are) {
  for (const auto& value : values()) {
    if (std::string_view(value.type()).starts_with("Tensor")) continue;  // tests/actors do
    const auto back = through_bytes([&](encoder& out) { out.put(value); });
    EXPECT_STREQ(back.type(), value.type());
    ASSERT_EQ(back.none(), value.none());
    if (value.none()) continue;
    EXPECT_EQ(back.content()->value.index(), value.content()->value.index());
  }
}

TEST(operator_values, that_libtorch_has_no_name_for_are_refused) {
  const auto alternative = [](int index, std::vector<std::int8_t> bytes) {
    return [=](encoder& out) {
      out.put(true);
      out.put(static_cast<std::uint8_t>(index));
      for (const auto byte : bytes) out.put(byte);
    };
  };
  EXPECT_EQ(through_bytes(alternative(11, {6})).to<at::ScalarType>(), at::kFloat);
  for (const std::int8_t dtype : {-1, -128, 100, 127})
    EXPECT_THROW(through_bytes(alternative(11, {dtype})), decode_error);
  EXPECT_THROW(
      through_bytes(alternative(11, {static_cast<std::int8_t>(at::ScalarType::Undefined)})),
      decode_error);
  for (const std::int8_t bad : {-1, 50}) {
    EXPECT_THROW(through_bytes(alternative(12, {bad})), decode_error);
    EXPECT_THROW(through_bytes(alternative(13, {bad})), decode_error);
    EXPECT_THROW(through_bytes(alternative(14, {bad, 0})), decode_error);
  }
  EXPECT_EQ(through_bytes(alternative(14, {1, 2})).to<at::Device>(), at::Device(at::kCUDA, 2));
  EXPECT_THROW(through_bytes(alternative(14, {1, -2})), decode_error);
  EXPECT_THROW(through_bytes(alternative(15, {0})), decode_error);
  EXPECT_THROW(through_bytes([](encoder& out) { out.put(std::uint8_t{2}); }), decode_error);
}

}  // namespace
}  // namespace troupe::test
