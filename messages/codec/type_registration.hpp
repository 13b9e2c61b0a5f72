#pragma once

#include <caf/make_message.hpp>
#include <caf/make_type_erased_value.hpp>
#include <caf/type_nr.hpp>
#include <typeinfo>

#include "troupe/messages/codec/archive.hpp"
#include "troupe/messages/codec/structure.hpp"
#include "troupe/messages/codec/type_table.hpp"

// Adds types to the type table before main.
namespace troupe {

namespace detail {

// CAF treats integers of one size and sign as one type, and so does the wire.
template <class T>
struct canonical {
  using type = T;
};
template <class T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) struct canonical<T> {
  using type = caf::detail::squashed_int_t<T>;
};

template <class T>
std::uint64_t element_hash() {
  return type_identity<typename canonical<T>::type>();
}

template <class T>
const type_entry& own_entry_of() {
  static const type_entry entry{
      structure<T>::identity(type_hash<T>()),
      type_name<T>(),
      &typeid(T),
      caf::type_nr<T>::value,
      [](encoder& out, const void* x) { out.put(*static_cast<const T*>(x)); },
      [](decoder& in) {
        return caf::type_erased_value_ptr(new caf::detail::type_erased_value_impl<T>(in.get<T>()));
      },
      [](decoder& in) { return caf::make_message(in.get<T>()); },
      &structure<T>::text,
  };
  return entry;
}

template <class T>
const type_entry& entry_of() {
  if constexpr (has_extern_code<T>)
    return troupe_entry(static_cast<const T*>(nullptr));
  else
    return own_entry_of<T>();
}

/// `caf::make_message(xs...)`.
template <class... Ts>
caf::message message_of(Ts&&... xs) {
  if constexpr (sizeof...(Ts) == 1 && (has_extern_code<std::decay_t<Ts>> && ...))
    return (troupe_message(std::decay_t<Ts>(std::forward<Ts>(xs))), ...);
  else
    return caf::make_message(std::forward<Ts>(xs)...);
}

/// add_type, in the object file that also registers the built-in types, so that a linker that takes
/// one takes both.
bool enter_type(const type_entry& entry);

/// Registers T before main in every program in which this is named.
template <class T>
struct type_registration {
  static const bool done;
};
template <class T>
const bool type_registration<T>::done = enter_type(entry_of<typename canonical<T>::type>());

template <class Signature>
struct register_signature;

template <class... In, class... Out>
struct register_signature<
    caf::typed_mpi<caf::detail::type_list<In...>, caf::output_tuple<Out...>>> {
  static bool run() {
    bool all = true;
    ((all = all && element<In>()), ...);
    ((all = all && element<Out>()), ...);
    return all;
  }

  template <class T>
  static bool element() {
    if constexpr (std::is_void_v<T> || local_message<T>)
      return true;
    else
      return type_registration<T>::done;
  }
};

}  // namespace detail

// Declared in fields.hpp.
template <class T>
bool register_message_type() {
  return detail::type_registration<T>::done;
}

/// Registers all types that an actor of this interface receives and returns.
template <class Handle>
struct interface_registration;

template <class... Sigs>
struct interface_registration<caf::typed_actor<Sigs...>> {
  static const bool done;
};
template <class... Sigs>
const bool interface_registration<caf::typed_actor<Sigs...>>::done =
    (true && ... && detail::register_signature<Sigs>::run());

template <>
struct interface_registration<caf::actor> {
  static constexpr bool done = true;
};

namespace detail {

// Types that CAF's own serialisation cannot take, but ours can.
template <class T>
struct own_codec : std::bool_constant<has_fields<T> || local_message<T> || has_schema<T>> {};
template <>
struct own_codec<at::Tensor> : std::true_type {};
template <class T>
struct own_codec<std::optional<T>> : std::true_type {};
template <class... Ts>
struct own_codec<std::variant<Ts...>> : std::true_type {};
template <class T>
struct own_codec<std::complex<T>> : std::true_type {};
template <class A, class B>
struct own_codec<std::pair<A, B>>
    : std::bool_constant<own_codec<std::remove_const_t<A>>::value || own_codec<B>::value> {};
template <class... Ts>
struct own_codec<std::tuple<Ts...>> : std::bool_constant<(own_codec<Ts>::value || ...)> {};
template <class T, std::size_t N>
struct own_codec<std::array<T, N>> : own_codec<T> {};
template <container T>
requires(!has_fields<T>) struct own_codec<T> : own_codec<typename T::value_type> {
};

}  // namespace detail

}  // namespace troupe

template <class T>
requires troupe::detail::own_codec<T>::value struct caf::allowed_unsafe_message_type<T>
    : std::true_type {
};
