#pragma once

#include <array>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/messages/base/function_ref.hpp"
#include "troupe/messages/codec/fields.hpp"

namespace at {
class Tensor;
}

namespace troupe::detail {

using tensor_visitor = function_ref<void(const at::Tensor&)>;

/// A type that shows its tensors by a `troupe_tensors` of its own.
template <class T>
concept shows_tensors = requires(const T& x, tensor_visitor look) {
  troupe_tensors(x, look);
};

template <class T>
inline constexpr bool is_list = false;
template <class T, class A>
inline constexpr bool is_list<std::vector<T, A>> = !std::is_arithmetic_v<T>;
template <class T, class A>
inline constexpr bool is_list<std::deque<T, A>> = true;
template <class T, class A>
inline constexpr bool is_list<std::list<T, A>> = true;
template <class T, std::size_t N>
inline constexpr bool is_list<std::array<T, N>> = true;
template <class K, class V, class C, class A>
inline constexpr bool is_list<std::map<K, V, C, A>> = true;
template <class K, class V, class H, class E, class A>
inline constexpr bool is_list<std::unordered_map<K, V, H, E, A>> = true;
template <class T>
inline constexpr bool is_optional_value = false;
template <class T>
inline constexpr bool is_optional_value<std::optional<T>> = true;
template <class T>
inline constexpr bool is_variant = false;
template <class... Ts>
inline constexpr bool is_variant<std::variant<Ts...>> = true;
template <class T>
inline constexpr bool is_product = false;
template <class... Ts>
inline constexpr bool is_product<std::tuple<Ts...>> = true;
template <class T, class U>
inline constexpr bool is_product<std::pair<T, U>> = true;

/// Shows the tensors in `x`, which need not be sendable: itself, those in containers and in fields
/// of messages. What else may hold tensors is passed over. Costs nothing where there can be none.
template <class T>
void tensors_within(const T& x, tensor_visitor look) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    look(x);
  } else if constexpr (shows_tensors<T>) {
    troupe_tensors(x, look);
  } else if constexpr (is_list<T>) {
    for (const auto& one : x) tensors_within(one, look);
  } else if constexpr (is_optional_value<T>) {
    if (x) tensors_within(*x, look);
  } else if constexpr (is_variant<T>) {
    if (!x.valueless_by_exception())
      std::visit([&](const auto& one) { tensors_within(one, look); }, x);
  } else if constexpr (is_product<T>) {
    std::apply([&](const auto&... each) { (tensors_within(each, look), ...); }, x);
  } else if constexpr (has_fields<T>) {
    std::apply([&](auto... field) { (tensors_within(x.*field, look), ...); },
               troupe_fields(static_cast<const T*>(nullptr)));
  }
}

}  // namespace troupe::detail
