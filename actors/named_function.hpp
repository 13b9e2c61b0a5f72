#pragma once

#include <deque>

#include "actors/defaults.hpp"

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

/// The type of a function that is called with such arguments only.
template <class R, class Arguments>
struct signature_of;
template <class R, class... Args>
struct signature_of<R, std::tuple<Args...>> {
  using type = R(Args...);
};

/// What goes by a name of its own. Never destroyed: calls may arrive while the process ends.
template <class Call, bool Creates, class Named>
bool add_under_name(const char* name) {
  static auto* const entries = new std::deque<function_entry>;
  const auto hash = Creates ? Named::creating_hash(name) : Named::hash(name);
  for (const auto& one : *entries)
    if (one.hash == hash) return true;  // by a header that several sources include
  return add_function(entries->emplace_back(
      function_entry{hash, name, &Call::invoke, &Call::skip, &Call::structure::text}));
}

/// F without its last arguments, as many as are missing, which have defaults.
template <auto F, std::size_t Missing>
bool register_shortened(const char* name) {
  using target = shortened_target<F, Missing>;
  using given = typename target::template parameters<void>;
  using named = named_function<typename signature_of<typename target::returned, given>::type>;
  return add_under_name<invocation<target, void, false, given>, false, named>(name) &&
         add_under_name<invocation<target, void, true, given>, true, named>(name);
}

// An overloaded function does not compile: the class that is wanted says why.
template <name_the_overload_with_static_cast>
bool register_function(const char*) = delete;

/// Lets other programs call F as `name`, which lives as long as the process; also without the
/// arguments that have defaults.
template <auto F>
bool register_function(const char* name) {
  using check = call_check<function_target<F>, void>;
  if constexpr (check::returns && defaults_check<F>::ok) {
    using named = named_function<typename plain_signature<decltype(F)>::type>;
    using creating = invocation<function_target<F>, void, true, typename callable<F>::arguments>;
    return add_under_name<callable<F>, false, named>(name) &&
           add_under_name<creating, true, named>(name)&& [&]<std::size_t... I>(
               std::index_sequence<I...>) {
      return (true && ... && register_shortened<F, I + 1>(name));
    }
    (std::make_index_sequence<default_count<F>>());
  }
}

}  // namespace troupe::detail

/// Registers a function under its own name, as it is written here, or under another one, for calls
/// by name: `TROUPE_FUNCTION(add)`, `TROUPE_FUNCTION_AS("sum", add)`, of an overloaded one
/// `TROUPE_FUNCTION_AS("sum", static_cast<int (*)(int, int)>(add))`. At namespace scope.
#define TROUPE_FUNCTION(function) TROUPE_FUNCTION_AS(#function, function)
#define TROUPE_FUNCTION_AS(name, function)                                        \
  [[maybe_unused]] static const bool TROUPE_JOIN(troupe_function_, __COUNTER__) = \
      ::troupe::detail::register_function<function>(name);
