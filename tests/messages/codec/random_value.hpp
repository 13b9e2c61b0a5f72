// Random values of every kind that the archive knows.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/messages/codec/archive.hpp"

namespace troupe::testing {

template <class... Ts>
struct types {};

/// Calls `use<T>()` for each type; failures in it name the type.
template <class... Ts, class F>
void for_each(types<Ts...>, F&& use) {
  (
      [&] {
        SCOPED_TRACE(std::string(type_name<Ts>()));
        use.template operator()<Ts>();
      }(),
      ...);
}

/// The same seed gives the same values.
class random_values {
public:
  explicit random_values(std::uint64_t seed) : random_(seed) {}

  std::uint64_t bits() { return random_(); }
  std::size_t below(std::size_t limit) { return random_() % limit; }

  /// Small, large and extreme values alike.
  template <class T>
  T make() {
    if constexpr (std::is_same_v<T, bool>) {
      return below(2) == 0;
    } else if constexpr (std::is_floating_point_v<T>) {
      switch (below(5)) {
        case 0: return std::numeric_limits<T>::infinity();
        case 1: return -std::numeric_limits<T>::denorm_min();
        case 2: return T(-0.0);
        default: return static_cast<T>(std::normal_distribution<double>(0, 1e6)(random_));
      }
    } else if constexpr (std::is_integral_v<T>) {
      switch (below(4)) {
        case 0: return std::numeric_limits<T>::min();
        case 1: return std::numeric_limits<T>::max();
        case 2: return static_cast<T>(below(3));
        default: return static_cast<T>(bits());
      }
    } else if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(below(3));
    } else if constexpr (detail::instance_of<T, std::complex>) {
      return T(make<typename T::value_type>(), make<typename T::value_type>());
    } else if constexpr (detail::instance_of<T, std::optional>) {
      return below(2) == 0 ? T() : T(make<typename T::value_type>());
    } else if constexpr (detail::instance_of<T, std::variant>) {
      return make_variant<T>(std::make_index_sequence<std::variant_size_v<T>>());
    } else if constexpr (detail::instance_of<T, std::pair>) {
      return T(make<std::remove_const_t<typename T::first_type>>(),
               make<typename T::second_type>());
    } else if constexpr (detail::instance_of<T, std::tuple> || detail::is_std_array<T>::value) {
      T out{};
      std::apply([&](auto&... xs) { ((xs = make<std::remove_reference_t<decltype(xs)>>()), ...); },
                 out);
      return out;
    } else if constexpr (detail::instance_of<T, std::chrono::duration>) {
      return T(make<typename T::rep>());
    } else if constexpr (detail::instance_of<T, std::chrono::time_point>) {
      return T(make<typename T::duration>());
    } else if constexpr (detail::container<T>) {
      T out;
      for (auto n = below(below(4) == 0 ? 40 : 4); n > 0; --n)
        if constexpr (detail::map_like<T>)
          out.emplace(make<typename T::key_type>(), make<typename T::mapped_type>());
        else
          out.insert(out.end(), make<typename T::value_type>());
      return out;
    } else if constexpr (std::is_empty_v<T>) {
      return T();
    } else {
      return T::random(*this);
    }
  }

private:
  template <class T, std::size_t... I>
  T make_variant(std::index_sequence<I...>) {
    T out;
    const auto index = below(sizeof...(I));
    static_cast<void>((
        (index == I && (out.template emplace<I>(make<std::variant_alternative_t<I, T>>()), true)) ||
        ...));
    return out;
  }

  std::mt19937_64 random_;
};

}  // namespace troupe::testing
