#include "troupe/optim/state/archive_values.hpp"

#include <ATen/core/ivalue.h>
#include <fmt/format.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <sstream>

#include "troupe/messages/base/error.hpp"

namespace troupe::detail {

namespace {

torch::serialize::InputArchive read_back(torch::serialize::OutputArchive& archive,
                                         const at::Device& device) {
  std::stringstream bytes;
  archive.save_to(bytes);
  torch::serialize::InputArchive out;
  out.load_from(bytes, device);
  return out;
}

archive_value value_of(const std::string& name, const c10::IValue& x) {
  if (x.isNone()) return std::monostate();
  if (x.isBool()) return x.toBool();
  if (x.isInt()) return x.toInt();
  if (x.isDouble()) return x.toDouble();
  if (x.isString()) return x.toStringRef();
  if (x.isTensor()) return x.toTensor();
  if (x.isIntList()) return x.toIntVector();
  if (x.isDoubleList()) return x.toDoubleVector();
  if (x.isTensorList()) return x.toTensorVector();
  if (x.isTuple()) {
    number_tuple out;
    for (const auto& one : x.toTupleRef().elements())
      if (one.isDouble()) out.numbers.push_back(one.toDouble());
    if (out.numbers.size() == x.toTupleRef().elements().size()) return out;
  }
  throw invalid_argument(
      fmt::format("\"{}\" of an optimizer is a {}, which cannot be sent", name, x.tagKind()));
}

c10::IValue ivalue_of(const archive_value& x) {
  return std::visit(
      [](const auto& value) -> c10::IValue {
        using type = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<type, std::monostate>) {
          return {};
        } else if constexpr (std::is_same_v<type, number_tuple>) {
          return c10::ivalue::Tuple::create(
              std::vector<c10::IValue>(value.numbers.begin(), value.numbers.end()));
        } else {
          return value;
        }
      },
      x);
}

template <class T>
archive_values values(const T& x) {
  torch::serialize::OutputArchive written;
  x.serialize(written);
  auto archive = read_back(written, at::kCPU);
  archive_values out;
  for (const auto& name : archive.keys()) {
    c10::IValue value;
    archive.read(name, value);
    out.emplace(name, value_of(name, value));
  }
  return out;
}

template <class T>
void read(T& x, const archive_values& values, const at::Device& device, const char* what,
          const optimizer_kind& kind) {
  try {
    torch::serialize::OutputArchive written;
    for (const auto& [name, value] : values) written.write(name, ivalue_of(value));
    auto archive = read_back(written, device);
    x.serialize(archive);
  } catch (const std::exception& e) {
    const auto* from_libtorch = dynamic_cast<const c10::Error*>(&e);
    throw invalid_argument(
        fmt::format("these are no {} of {}: {}", what, kind.name,
                    from_libtorch ? from_libtorch->what_without_backtrace() : e.what()));
  }
}

}  // namespace

archive_values values_of(const torch::optim::OptimizerOptions& options) { return values(options); }

archive_values values_of(const torch::optim::OptimizerParamState& state) {
  const auto* of_lbfgs = dynamic_cast<const torch::optim::LBFGSParamState*>(&state);
  if (!of_lbfgs) return values(state);
  // Scratch space of a step, parts of it undefined, which libtorch cannot write.
  auto copy = *of_lbfgs;
  copy.al(std::nullopt);
  return values(copy);
}

std::unique_ptr<torch::optim::OptimizerOptions> options_from(const optimizer_kind& kind,
                                                             const archive_values& values) {
  auto out = kind.some_options();
  read(*out, values, at::kCPU, "options", kind);
  return out;
}

std::unique_ptr<torch::optim::OptimizerParamState> state_from(const optimizer_kind& kind,
                                                              const archive_values& values,
                                                              const at::Device& device) {
  auto out = kind.empty_state();
  read(*out, values, device, "state", kind);
  return out;
}

}  // namespace troupe::detail
