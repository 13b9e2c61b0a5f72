#pragma once

#include <tuple>

/// Makes a struct sendable: `TROUPE_MESSAGE(select_action, state)` names the struct and its fields.
/// Stands in the struct's own namespace, after it; up to 32 fields, each of a sendable type.
#define TROUPE_MESSAGE(Type, ...)                                                   \
  [[maybe_unused]] constexpr auto troupe_fields(const Type*) {                      \
    return std::make_tuple(__VA_OPT__(TROUPE_EACH(Type, __VA_ARGS__)));             \
  }                                                                                 \
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

/// Enters T into the table of types that may arrive. Called by TROUPE_MESSAGE.
template <class T>
bool register_message_type();

/// Has TROUPE_MESSAGE been used for T?
template <class T>
concept has_fields = requires(const T* x) {
  troupe_fields(x);
};

}  // namespace troupe
