#pragma once

#include <cstdint>
#include <string_view>

namespace troupe {

namespace detail {

template <class T>
constexpr const char* pretty_type() {
  return __PRETTY_FUNCTION__;
}

template <auto V>
constexpr const char* pretty_value() {
  return __PRETTY_FUNCTION__;
}

// "... [with T = int]", as g++ writes it, or "... [T = int]", as clang does -> "int"
constexpr std::string_view after_equals(std::string_view text) {
  const auto from = text.find(" = ", text.find('[')) + 3;
  return text.substr(from, text.size() - from - 1);
}

}  // namespace detail

/// The name of T as the compiler writes it: equal in all programs built by one compiler.
template <class T>
constexpr std::string_view type_name() {
  constexpr auto name = detail::after_equals(detail::pretty_type<T>());
  return name;
}

/// The name of a function or member given as a template argument, such as "model::forward".
template <auto F>
constexpr std::string_view function_name() {
  auto name = detail::after_equals(detail::pretty_value<F>());
  // What is before a name; but clang writes "(anonymous namespace)::f" too.
  while (!name.empty() && (name.front() == '&' || name.front() == '(') &&
         !name.starts_with("(anonymous"))
    name.remove_prefix(1);
  while (!name.empty() && name.back() == ')' && name.find('(') == std::string_view::npos)
    name.remove_suffix(1);
  return name;
}

/// FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/).
constexpr std::uint64_t hash_name(std::string_view text,
                                  std::uint64_t hash = 0xcbf29ce484222325ull) {
  for (char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ull;
  }
  return hash;
}

/// Identifies T on the wire.
template <class T>
constexpr std::uint64_t type_hash() {
  constexpr auto hash = hash_name(type_name<T>());
  return hash;
}

}  // namespace troupe
