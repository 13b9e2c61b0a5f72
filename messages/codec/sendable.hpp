#pragma once

#include <array>
#include <caf/actor.hpp>
#include <caf/actor_addr.hpp>
#include <caf/error.hpp>
#include <caf/is_actor_handle.hpp>
#include <caf/message.hpp>
#include <caf/typed_actor.hpp>
#include <chrono>
#include <complex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/messages/codec/fields.hpp"

namespace at {
class Tensor;
}

// Which types can be sent, and in which form: what `encoder` and `decoder` agree on.
namespace troupe::detail {

template <class T, template <class...> class Template>
struct is_instance : std::false_type {};
template <template <class...> class Template, class... Ts>
struct is_instance<Template<Ts...>, Template> : std::true_type {};
template <class T, template <class...> class Template>
concept instance_of = is_instance<T, Template>::value;

template <class T>
struct is_std_array : std::false_type {};
template <class T, std::size_t N>
struct is_std_array<std::array<T, N>> : std::true_type {};

template <class T>
concept container = requires(T& x) {
  typename T::value_type;
  x.begin();
  x.end();
  x.size();
  x.clear();
};

template <class T>
concept map_like = container<T> && requires {
  typename T::mapped_type;
};

template <class T>
concept actor_handle = caf::is_actor_handle<T>::value || std::is_same_v<T, caf::strong_actor_ptr> ||
    std::is_same_v<T, caf::weak_actor_ptr> || std::is_same_v<T, caf::actor_addr>;

/// An `rref`.
template <class T>
concept remote_reference = requires(const T& x) {
  typename T::element_type;
  typename T::is_remote_reference;
  x.core();
};

// Not every byte is one of these.
template <class T>
concept boolean = std::is_same_v<T, bool> ||
    (std::is_enum_v<T>&& std::is_same_v<std::underlying_type_t<T>, bool>);

// Every pattern of bytes is one of these.
template <class T>
concept plain =
    ((std::is_arithmetic_v<T> || std::is_enum_v<T>)&&!boolean<T>) || instance_of<T, std::complex>;

template <class T>
concept plain_vector = instance_of<T, std::vector> && plain<typename T::value_type>;

// CAF's inspector protocol, for types that bring an `inspect`.
template <class Archive, class T>
concept inspectable_by = requires(Archive& a, T& x) {
  inspect(a, x);
};

/// What a value is written as. "Nests" counts towards the limit of levels.
enum class form {
  boolean,       ///< a byte, 0 or 1
  plain,         ///< its bytes
  tensor,        ///< its index in the message's table of tensors
  handle,        ///< what the handle_translator makes of it
  reference,     ///< what the handle_translator makes of it
  message,       ///< number of elements; of each the hash of its type, and itself; nests
  error,         ///< whether there is one, code, category, context; nests
  fields,        ///< those that TROUPE_MESSAGE names, in turn; nests
  inspected,     ///< what `inspect` hands out, in turn; nests
  string,        ///< length and bytes
  optional,      ///< whether there is a value, and the value; nests
  variant,       ///< a byte, the index, and the alternative; nests
  pair,          ///< first and second
  tuple,         ///< the elements in turn
  array,         ///< the elements in turn
  duration,      ///< its count
  time_point,    ///< its count since the epoch
  plain_vector,  ///< length, and the elements as one block
  container,     ///< length, and the elements in turn; a map's are key and value; nests
  empty,         ///< nothing
};

/// The form in which `Archive`, an encoder or a decoder, treats a T. Does not compile for a type
/// that cannot be sent.
template <class Archive, class T>
constexpr form form_of() {
  if constexpr (boolean<T>)
    return form::boolean;
  else if constexpr (plain<T>)
    return form::plain;
  else if constexpr (std::is_same_v<T, at::Tensor>)
    return form::tensor;
  else if constexpr (actor_handle<T>)
    return form::handle;
  else if constexpr (remote_reference<T>)
    return form::reference;
  else if constexpr (std::is_same_v<T, caf::message>)
    return form::message;
  else if constexpr (std::is_same_v<T, caf::error>)
    return form::error;
  else if constexpr (has_fields<T>)
    return form::fields;
  else if constexpr (inspectable_by<Archive, T>)
    return form::inspected;
  else if constexpr (std::is_same_v<T, std::string>)
    return form::string;
  else if constexpr (instance_of<T, std::optional>)
    return form::optional;
  else if constexpr (instance_of<T, std::variant>)
    return form::variant;
  else if constexpr (instance_of<T, std::pair>)
    return form::pair;
  else if constexpr (instance_of<T, std::tuple>)
    return form::tuple;
  else if constexpr (is_std_array<T>::value)
    return form::array;
  else if constexpr (instance_of<T, std::chrono::duration>)
    return form::duration;
  else if constexpr (instance_of<T, std::chrono::time_point>)
    return form::time_point;
  else if constexpr (plain_vector<T>)
    return form::plain_vector;
  else if constexpr (container<T>)
    return form::container;
  else {
    static_assert(
        std::is_empty_v<T>,
        "this type cannot be sent: give it TROUPE_MESSAGE(type, fields...) or CAF's inspect; in "
        "place of a pointer, a reference or a view take the value itself, such as std::string");
    return form::empty;
  }
}

/// The text of the error for an `inspect` of `type` that failed.
inline std::string inspect_failure(const caf::error& failure, std::string_view type) {
  return "inspect of " + std::string(type) + " failed: " + to_string(failure);
}

}  // namespace troupe::detail
