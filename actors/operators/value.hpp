#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/codec/tensors_within.hpp"

namespace at {
class Tensor;
}
namespace c10 {
class Scalar;
struct Device;
enum class DeviceType : std::int8_t;
enum class ScalarType : std::int8_t;
enum class Layout : std::int8_t;
enum class MemoryFormat : std::int8_t;
}  // namespace c10
namespace caf {
class error;
}

namespace troupe {

class encoder;
class decoder;
class op_result;

namespace detail {

struct op_content;

template <class T, class... Ts>
concept one_of = (std::is_same_v<T, Ts> || ...);

// The types that an op_value is read as directly; others are made from these.
template <class T>
concept op_readable =
    one_of<T, at::Tensor, bool, std::int64_t, double, std::complex<double>, c10::Scalar,
           std::string, c10::ScalarType, c10::Layout, c10::MemoryFormat, c10::Device,
           std::vector<std::int64_t>, std::vector<double>, std::vector<bool>,
           std::vector<at::Tensor>, std::vector<std::optional<at::Tensor>>>;

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

/// May an rref keep the result of an operator as a T? Not as a text: `remote` constructs that.
template <class T>
inline constexpr bool is_kept_result =
    std::is_arithmetic_v<T> ||
    one_of<T, op_result, at::Tensor, std::complex<double>, c10::ScalarType, c10::Layout,
           c10::MemoryFormat, std::vector<std::int64_t>, std::vector<double>, std::vector<bool>,
           std::vector<at::Tensor>, std::vector<std::optional<at::Tensor>>>;
template <class T>
inline constexpr bool is_kept_result<std::optional<T>> = is_kept_result<T>;
template <class... Ts>
inline constexpr bool is_kept_result<std::tuple<Ts...>> = (is_kept_result<Ts> && ...);

}  // namespace detail

/// An argument or a result of an operator: a tensor, a number, a string, a dtype, a layout, a
/// memory format, a device, a list of some of these, or none. Copies share what they hold.
/// Sendable.
class op_value {
public:
  op_value() noexcept = default;  ///< none
  op_value(std::nullopt_t) noexcept {}
  op_value(const at::Tensor& x);  ///< one that is undefined: none
  op_value(const c10::Scalar& x);
  op_value(const c10::Device& x);
  op_value(c10::DeviceType x);
  op_value(c10::ScalarType x);
  op_value(c10::Layout x);
  op_value(c10::MemoryFormat x);
  op_value(std::string_view x);
  op_value(const char* x) : op_value(std::string_view(x)) {}
  op_value(const std::string& x) : op_value(std::string_view(x)) {}
  op_value(const std::complex<double>& x);
  op_value(const op_result& x);  ///< throws invalid_argument unless it is one value

  /// A number. Throws invalid_argument for an integer that does not fit into std::int64_t.
  template <class T>
  requires std::is_arithmetic_v<T> op_value(T x) {
    if constexpr (std::is_same_v<T, bool>)
      hold(x);
    else if constexpr (std::is_floating_point_v<T>)
      hold(static_cast<double>(x));
    else
      hold(whole(x));
  }

  template <class T>
  op_value(const std::optional<T>& x) : op_value(x ? op_value(*x) : op_value()) {}

  /// A list: of numbers, of tensors, of optional tensors.
  template <std::ranges::input_range List>
  requires(!std::convertible_to<const List&, std::string_view>) op_value(const List& xs) {
    using element = std::ranges::range_value_t<const List>;
    constexpr bool known = std::is_arithmetic_v<element> ||
                           detail::one_of<element, at::Tensor, std::optional<at::Tensor>>;
    static_assert(known, "an operator takes no list of this type");
    if constexpr (!std::is_integral_v<element> || std::is_same_v<element, bool>) {
      using kept = std::conditional_t<std::is_floating_point_v<element>, double, element>;
      hold(std::vector<kept>(std::ranges::begin(xs), std::ranges::end(xs)));
    } else {
      std::vector<std::int64_t> numbers;
      if constexpr (std::ranges::sized_range<const List>) numbers.reserve(std::ranges::size(xs));
      for (const auto x : xs) numbers.push_back(whole(x));
      hold(std::move(numbers));
    }
  }

  bool none() const noexcept { return !content_; }

  /// Its type as schemas write it: "Tensor", "int[]", "None".
  const char* type() const noexcept;

  /// The value as a T: at::Tensor (an undefined one for none), bool, any number that holds it,
  /// std::complex<double>, at::Scalar, std::string, at::ScalarType, at::Layout, at::MemoryFormat,
  /// at::Device, a vector of std::int64_t, double, bool, tensors or optional tensors, or an
  /// optional of one of these. Throws invalid_argument when it is of another type.
  template <class T>
  T to() const {
    if constexpr (detail::is_optional<T>) {
      if (none()) return std::nullopt;
      return to<typename T::value_type>();
    } else if constexpr (detail::op_readable<T>) {
      return as<T>();
    } else if constexpr (std::is_integral_v<T>) {
      const auto x = as<std::int64_t>();
      if (!std::in_range<T>(x)) too_large(std::to_string(x));
      return static_cast<T>(x);
    } else {
      static_assert(std::is_floating_point_v<T>, "no value of an operator is of this type");
      return static_cast<T>(as<double>());
    }
  }

  // In the class alone: elsewhere it would be considered for whatever converts to a value.
  friend void troupe_tensors(const op_value& x, detail::tensor_visitor look) {
    x.show_tensors(look);
  }

  /// Null: none.
  const detail::op_content* content() const noexcept { return content_.get(); }

  friend caf::error inspect(encoder& out, op_value& x);
  friend caf::error inspect(decoder& in, op_value& x);

private:
  void show_tensors(detail::tensor_visitor look) const;
  template <std::integral T>
  static std::int64_t whole(T x) {
    if (!std::in_range<std::int64_t>(x)) too_large(std::to_string(x));
    return static_cast<std::int64_t>(x);
  }
  [[noreturn]] static void too_large(const std::string& number);

  template <class T>
  void hold(T x);
  template <detail::op_readable T>
  T as() const;

  std::shared_ptr<const detail::op_content> content_;
};

/// The results of an operator, in order. Sendable.
class op_result {
public:
  op_result() = default;
  /// `name`: of the operator, for errors; may be empty.
  explicit op_result(std::vector<op_value> values, std::string name = {}) noexcept
      : values_(std::move(values)), name_(std::move(name)) {}

  std::size_t size() const noexcept { return values_.size(); }
  const op_value& operator[](std::size_t i) const { return values_.at(i); }  ///< checked

  /// The one result. Throws invalid_argument when there are more, or none.
  const op_value& only() const {
    expect(1);
    return values_.front();
  }

  /// The one result as a T, or all of them as a std::tuple; see op_value::to. Throws
  /// invalid_argument, which names the results, when their number or types are others.
  template <class T>
  T to() const {
    if constexpr (requires { std::tuple_size<T>::value; }) {
      expect(std::tuple_size_v<T>);
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return T{part<std::tuple_element_t<I, T>>(I)...};
      }
      (std::make_index_sequence<std::tuple_size_v<T>>());
    } else {
      expect(1);
      return part<T>(0);
    }
  }

  /// The result at that place, from 0, as a T. Throws invalid_argument, like `to`.
  template <class T>
  T at(std::size_t place) const {
    if (place >= size()) lack(place);
    return part<T>(place);
  }

  friend void troupe_tensors(const op_result& x, detail::tensor_visitor look) {
    for (const auto& one : x.values_) troupe_tensors(one, look);
  }
  friend caf::error inspect(encoder& out, op_result& x);
  friend caf::error inspect(decoder& in, op_result& x);

private:
  template <class T>
  T part(std::size_t place) const {
    try {
      return values_[place].template to<T>();
    } catch (const invalid_argument& why) {
      refuse(why);
    }
  }
  void expect(std::size_t count) const;
  [[noreturn]] void lack(std::size_t place) const;
  [[noreturn]] void refuse(const invalid_argument& why) const;
  [[noreturn]] void fail(const std::string& how) const;
  std::string types() const;

  std::vector<op_value> values_;
  std::string name_;
};

namespace detail {

/// The arguments of an operator: some by their place, others by their name.
struct op_arguments {
  std::vector<op_value> positional;
  std::vector<std::pair<std::string, op_value>> named;
};

}  // namespace detail

}  // namespace troupe
