#pragma once

#include <caf/fwd.hpp>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <tuple>

/// Makes a struct sendable: `TROUPE_MESSAGE(select_action, state)` names the struct and its fields.
/// Write it after the struct, in its namespace; up to 32 fields, each of a sendable type.
#define TROUPE_MESSAGE(Type, ...)  \
  TROUPE_FIELDS(Type, __VA_ARGS__) \
  TROUPE_REGISTERED(Type)

/// The same for a header that many sources include: the code that writes, reads and makes such
/// messages is compiled once, in the source that has TROUPE_MESSAGE_CODE(Type).
#define TROUPE_MESSAGE_EXTERN(Type, ...)                                            \
  TROUPE_FIELDS(Type, __VA_ARGS__)                                                  \
  [[maybe_unused]] constexpr const Type* troupe_extern(const Type* x) { return x; } \
  void troupe_write(::troupe::encoder&, const Type&);                               \
  void troupe_read(::troupe::decoder&, Type&);                                      \
  ::caf::message troupe_message(Type&&);                                            \
  const ::troupe::type_entry& troupe_entry(const Type*);                            \
  std::uint64_t troupe_identity(const Type*);                                       \
  void troupe_describe(::troupe::type_structure&, const Type*);

/// The code of a type of TROUPE_MESSAGE_EXTERN: in one source, in the namespace of the type.
#define TROUPE_MESSAGE_CODE(Type)                                                         \
  void troupe_write(::troupe::encoder& out, const Type& x) { out.put_fields(x); }         \
  void troupe_read(::troupe::decoder& in, Type& x) { in.get_fields(x); }                  \
  ::caf::message troupe_message(Type&& x) { return ::caf::make_message(::std::move(x)); } \
  const ::troupe::type_entry& troupe_entry(const Type*) {                                 \
    return ::troupe::detail::own_entry_of<Type>();                                        \
  }                                                                                       \
  std::uint64_t troupe_identity(const Type* x) { return troupe_entry(x).hash; }           \
  void troupe_describe(::troupe::type_structure& out, const Type*) {                      \
    ::troupe::detail::describe_fields<Type>(out);                                         \
  }                                                                                       \
  TROUPE_REGISTERED(Type)

/// Makes a struct a message between actors of one node that never leaves the node: its fields may
/// be of any type. Sending it to an actor of another node throws invalid_argument.
#define TROUPE_LOCAL_MESSAGE(Type) \
  [[maybe_unused]] constexpr const Type* troupe_stays_here(const Type* x) { return x; }

#define TROUPE_FIELDS(Type, ...)                                                \
  [[maybe_unused]] constexpr auto troupe_fields(const Type*) {                  \
    return std::make_tuple(__VA_OPT__(TROUPE_EACH(Type, __VA_ARGS__)));         \
  }                                                                             \
  [[maybe_unused]] constexpr std::string_view troupe_field_names(const Type*) { \
    return #__VA_ARGS__;                                                        \
  }
#define TROUPE_REGISTERED(Type)                                                     \
  [[maybe_unused]] static const bool TROUPE_JOIN(troupe_registered_, __COUNTER__) = \
      ::troupe::register_message_type<Type>();

#define TROUPE_JOIN_2(a, b) a##b
#define TROUPE_JOIN(a, b) TROUPE_JOIN_2(a, b)

// One `&Type::field` for each field: the usual deferred recursion of the preprocessor.
#define TROUPE_PARENS ()
#define TROUPE_EXPAND(...) TROUPE_EXPAND_2(TROUPE_EXPAND_2(TROUPE_EXPAND_2(__VA_ARGS__)))
#define TROUPE_EXPAND_2(...) TROUPE_EXPAND_1(TROUPE_EXPAND_1(TROUPE_EXPAND_1(__VA_ARGS__)))
#define TROUPE_EXPAND_1(...) TROUPE_EXPAND_0(TROUPE_EXPAND_0(TROUPE_EXPAND_0(__VA_ARGS__)))
#define TROUPE_EXPAND_0(...) __VA_ARGS__
#define TROUPE_EACH(Type, ...) TROUPE_EXPAND(TROUPE_EACH_NEXT(Type, __VA_ARGS__))
#define TROUPE_EACH_NEXT(Type, field, ...) \
  &Type::field __VA_OPT__(, TROUPE_EACH_AGAIN TROUPE_PARENS(Type, __VA_ARGS__))
#define TROUPE_EACH_AGAIN() TROUPE_EACH_NEXT

namespace troupe {

class encoder;
class decoder;
struct type_entry;
class type_structure;

/// Adds T to the table of types that may arrive. Called by TROUPE_MESSAGE.
template <class T>
bool register_message_type();

/// Whether TROUPE_MESSAGE has been used for T.
template <class T>
concept has_fields = requires(const T* x) {
  troupe_fields(x);
};

/// Whether the names of its fields are known. Types with a `troupe_fields` of their own have none.
template <class T>
concept has_field_names = requires(const T* x) {
  troupe_field_names(x);
};

/// Whether TROUPE_MESSAGE_EXTERN has been used for T itself, not only for a base of it.
template <class T>
concept has_extern_code = requires(const T* x) {
  { troupe_extern(x) } -> std::same_as<const T*>;
};

/// Whether TROUPE_LOCAL_MESSAGE has been used for T itself, not only for a base of it.
template <class T>
concept local_message = requires(const T* x) {
  { troupe_stays_here(x) } -> std::same_as<const T*>;
};

}  // namespace troupe
