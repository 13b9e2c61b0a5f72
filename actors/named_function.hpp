#pragma once

#include "actors/rref/invocation.hpp"

namespace troupe::detail {

/// A function that goes by a name of its own, for programs that do not have it themselves.
template <class Signature>
struct named_function;
template <class R, class... Args>
struct named_function<R(Args...)> {
  using answer = typename answer_of<std::remove_cvref_t<R>>::type;
  using parameters = std::tuple<std::decay_t<Args>...>;

  static std::uint64_t hash(std::string_view name) {
    return with_structure<parameters, answer>(name_hash(name));
  }
  /// Of the entry whose result stays.
  static std::uint64_t creating_hash(std::string_view name) {
    return with_structure<parameters>(hash_name("remote", name_hash(name)));
  }

private:
  static std::uint64_t name_hash(std::string_view name) {
    return hash_name(name, hash_name(type_name<answer>(), type_hash<parameters>()));
  }
  template <class... Ts>
  static std::uint64_t with_structure(std::uint64_t hash) {
    static const auto of_types = structure<Ts...>::identity(0);
    return identity_of(hash, of_types);
  }
};

template <class F>
struct plain_signature;
template <class R, class... Args>
struct plain_signature<R (*)(Args...)> {
  using type = R(Args...);
};
template <class R, class... Args>
struct plain_signature<R (*)(Args...) noexcept> {
  using type = R(Args...);
};

/// Lets other programs call F as `name`, which lives as long as the process.
template <auto F>
bool register_function(const char* name) {
  using named = named_function<typename plain_signature<decltype(F)>::type>;
  using creating = invocation<function_target<F>, void, true, typename callable<F>::arguments>;
  // Never destroyed: calls may arrive while the process ends.
  static const auto* entries =
      new function_entry[2]{{named::hash(name), name, &callable<F>::invoke, &callable<F>::skip,
                             &callable<F>::structure::text},
                            {named::creating_hash(name), name, &creating::invoke, &creating::skip,
                             &creating::structure::text}};
  return add_function(entries[0]) && add_function(entries[1]);
}

}  // namespace troupe::detail

/// Registers a function under its own name, as it is written here, or under another one, for calls
/// by name: `TROUPE_FUNCTION(add)`, `TROUPE_FUNCTION_AS("sum", add)`. At namespace scope.
#define TROUPE_FUNCTION(function) TROUPE_FUNCTION_AS(#function, function)
#define TROUPE_FUNCTION_AS(name, function)                                        \
  [[maybe_unused]] static const bool TROUPE_JOIN(troupe_function_, __COUNTER__) = \
      ::troupe::detail::register_function<&function>(name);
