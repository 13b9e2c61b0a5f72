#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace troupe {

/// The whole of `text` as a decimal number; nothing if it is none, or does not fit.
template <class T>
std::optional<T> whole_number(std::string_view text) noexcept {
  T value{};
  const auto* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && at == end ? std::optional(value) : std::nullopt;
}

}  // namespace troupe
