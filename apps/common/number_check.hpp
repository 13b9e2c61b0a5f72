#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

namespace common {

/// The whole of `text` as a number; nothing if it is not a number or out of range.
template <class T>
std::optional<T> number(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && at == end ? std::optional(value) : std::nullopt;
}

/// Refuses all but numbers for which `good` holds; the error says "must be" and `wanted`.
template <class T, class Good>
CLI::Validator require(const std::string& wanted, Good good) {
  return {[=](std::string& text) {
            const auto value = number<T>(text);
            return value && good(*value) ? std::string()
                                         : "must be " + wanted + ", and not '" + text + "'";
          },
          ""};
}

/// Refuses all but whole numbers from `smallest` to `largest`.
template <class T>
CLI::Validator whole_number(T smallest, T largest = std::numeric_limits<T>::max()) {
  return require<T>(
      "a whole number from " + std::to_string(smallest) + " to " + std::to_string(largest),
      [=](T value) { return value >= smallest && value <= largest; });
}

/// Refuses all but finite numbers above 0.
inline CLI::Validator positive_number() {
  return require<double>("a number above 0", [](double x) { return x > 0 && std::isfinite(x); });
}

}  // namespace common
