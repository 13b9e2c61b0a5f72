#include "troupe/actors/operators/value.hpp"

#include <caf/error.hpp>

#include "troupe/actors/operators/value_internal.hpp"
#include "troupe/messages/codec/archive.hpp"

namespace troupe {

namespace {

using detail::device_id;
using detail::held;
using detail::op_content;

struct name_of_type {
  const char* operator()(const at::Tensor&) const { return "Tensor"; }
  const char* operator()(std::int64_t) const { return "int"; }
  const char* operator()(double) const { return "float"; }
  const char* operator()(bool) const { return "bool"; }
  const char* operator()(const std::string&) const { return "str"; }
  const char* operator()(const std::complex<double>&) const { return "complex"; }
  const char* operator()(const std::vector<std::int64_t>&) const { return "int[]"; }
  const char* operator()(const std::vector<double>&) const { return "float[]"; }
  const char* operator()(const std::vector<bool>&) const { return "bool[]"; }
  const char* operator()(const std::vector<at::Tensor>& xs) const {
    for (const auto& x : xs)
      if (!x.defined()) return "Tensor?[]";
    return "Tensor[]";
  }
  const char* operator()(const std::vector<std::optional<at::Tensor>>&) const {
    return "Tensor?[]";
  }
  const char* operator()(at::ScalarType) const { return "ScalarType"; }
  const char* operator()(at::Layout) const { return "Layout"; }
  const char* operator()(at::MemoryFormat) const { return "MemoryFormat"; }
  const char* operator()(const device_id&) const { return "Device"; }
};

// libtorch indexes tables by these, without a check.
template <class Enum>
void check_enum(const op_content::variant& value, Enum end, const char* what) {
  const auto* x = std::get_if<Enum>(&value);
  if (x && (static_cast<int>(*x) < 0 || *x >= end))
    throw decode_error("there is no " + std::string(what) + " number " +
                       std::to_string(static_cast<int>(*x)));
}

void check(const op_content::variant& value) {
  check_enum(value, at::ScalarType::Undefined, "dtype");
  check_enum(value, at::Layout::NumOptions, "layout");
  check_enum(value, at::MemoryFormat::NumOptions, "memory format");
  if (const auto* device = std::get_if<device_id>(&value))
    if (!c10::isValidDeviceType(static_cast<at::DeviceType>(device->type)) || device->index < -1)
      throw decode_error("there is no device number " + std::to_string(device->type) + ":" +
                         std::to_string(device->index));
}

}  // namespace

template <class T>
void op_value::hold(T x) {
  content_ = std::make_shared<const op_content>(op_content{std::move(x)});
}

template void op_value::hold(bool);
template void op_value::hold(std::int64_t);
template void op_value::hold(double);
template void op_value::hold(std::vector<std::int64_t>);
template void op_value::hold(std::vector<double>);
template void op_value::hold(std::vector<bool>);
template void op_value::hold(std::vector<at::Tensor>);
template void op_value::hold(std::vector<std::optional<at::Tensor>>);

op_value::op_value(const at::Tensor& x) {
  if (x.defined()) hold(x);
}
op_value::op_value(const c10::Scalar& x) {
  if (x.isBoolean())
    hold(x.toBool());
  else if (x.isIntegral(false))
    hold(x.toLong());
  else if (x.isComplex())
    hold(static_cast<std::complex<double>>(x.toComplexDouble()));
  else
    hold(x.toDouble());
}
op_value::op_value(const c10::Device& x) {
  hold(device_id{static_cast<std::int8_t>(x.type()), x.index()});
}
op_value::op_value(at::DeviceType x) : op_value(at::Device(x)) {}
op_value::op_value(at::ScalarType x) { hold(x); }
op_value::op_value(at::Layout x) { hold(x); }
op_value::op_value(at::MemoryFormat x) { hold(x); }
op_value::op_value(std::string_view x) { hold(std::string(x)); }
op_value::op_value(const std::complex<double>& x) { hold(x); }
op_value::op_value(const op_result& x) : op_value(x.only()) {}

const char* op_value::type() const noexcept {
  return none() ? "None" : std::visit(name_of_type(), content_->value);
}

void op_value::too_large(const std::string& number) {
  throw invalid_argument("the number " + number + " is too large for its type");
}

template <detail::op_readable T>
T op_value::as() const {
  if constexpr (std::is_same_v<T, at::Device>) {
    if (const auto* x = held<device_id>(*this))
      return {static_cast<at::DeviceType>(x->type), x->index};
  } else if constexpr (std::is_same_v<T, at::Scalar>) {
    if (const auto* x = held<bool>(*this)) return *x;
    if (const auto* x = held<std::int64_t>(*this)) return *x;
    if (const auto* x = held<double>(*this)) return *x;
    if (const auto* x = held<std::complex<double>>(*this)) return c10::complex<double>(*x);
  } else {
    if (const auto* x = held<T>(*this)) return *x;
    if constexpr (std::is_same_v<T, at::Tensor>)
      if (none()) return {};
    if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>>)
      if (const auto* x = held<std::int64_t>(*this)) return static_cast<double>(*x);
    if constexpr (std::is_same_v<T, std::complex<double>>)
      if (const auto* x = held<double>(*this)) return *x;
  }
  throw invalid_argument("a value of an operator is of type " + std::string(type()) + ", not " +
                         std::string(type_name<T>()));
}

template at::Tensor op_value::as() const;
template bool op_value::as() const;
template std::int64_t op_value::as() const;
template double op_value::as() const;
template std::complex<double> op_value::as() const;
template at::Scalar op_value::as() const;
template std::string op_value::as() const;
template at::ScalarType op_value::as() const;
template at::Layout op_value::as() const;
template at::MemoryFormat op_value::as() const;
template at::Device op_value::as() const;
template std::vector<std::int64_t> op_value::as() const;
template std::vector<double> op_value::as() const;
template std::vector<bool> op_value::as() const;
template std::vector<at::Tensor> op_value::as() const;
template std::vector<std::optional<at::Tensor>> op_value::as() const;

std::string op_result::types() const {
  std::string types;
  for (const auto& one : values_) types += (types.empty() ? "" : ", ") + std::string(one.type());
  return '(' + types + ')';
}

void op_result::fail(const std::string& how) const {
  fault why;
  why.function = name_.substr(0, detail::longest_shown_name);
  why.text = (name_.empty() ? "an operator" : why.function) + " has returned " + how;
  throw invalid_argument(std::move(why));
}

void op_result::expect(std::size_t count) const {
  if (size() == count) return;
  fail(std::to_string(size()) + " values, " + types() + ", and " + std::to_string(count) +
       " were asked for");
}

void op_result::lack(std::size_t place) const {
  fail(std::to_string(size()) + " values, " + types() + ", and none at place " +
       std::to_string(place) + ", counted from 0");
}

void op_result::refuse(const invalid_argument& why) const {
  fail(types() + ": " + why.fault().text);
}

void op_value::show_tensors(detail::tensor_visitor look) const {
  if (!none()) detail::tensors_within(content_->value, look);
}

caf::error inspect(encoder& out, op_value& x) {
  out.put(!x.none());
  if (!x.none()) out.put(x.content_->value);
  return caf::none;
}

caf::error inspect(decoder& in, op_value& x) {
  x.content_.reset();
  if (!in.get<bool>()) return caf::none;
  auto content = std::make_shared<op_content>();
  in.get_into(content->value);
  check(content->value);
  const auto* tensor = std::get_if<at::Tensor>(&content->value);
  if (!tensor || tensor->defined()) x.content_ = std::move(content);
  return caf::none;
}

caf::error inspect(encoder& out, op_result& x) {
  out.put(x.values_);
  out.put(x.name_);
  return caf::none;
}

caf::error inspect(decoder& in, op_result& x) {
  in.get_into(x.values_);
  in.get_into(x.name_);
  return caf::none;
}

}  // namespace troupe
