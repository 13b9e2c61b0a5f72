#pragma once

#include "troupe/actors/rref/defaults.hpp"
#include "troupe/actors/rref/named_function.hpp"

// Functions that other programs call by name.
namespace troupe::detail {

template <class F>
struct plain_signature {
  static_assert(!std::is_same_v<F, F>,
                "only a function can be registered by a name: no lambda, no member function");
  using type = void();  // so that no other error follows
};
template <class R, class... Args>
struct plain_signature<R (*)(Args...)> {
  using type = R(Args...);
};
template <class R, class... Args>
struct plain_signature<R (*)(Args...) noexcept> {
  using type = R(Args...);
};

/// The type of a function that takes such arguments.
template <class R, class Arguments>
struct signature_of;
template <class R, class... Args>
struct signature_of<R, std::tuple<Args...>> {
  using type = R(Args...);
};

/// Enters the calls of a target by a name and as a Signature: those that send the result back, and
/// those whose result stays; with values (`Call`), and with values and loans.
template <class Target, class Call, class Signature>
bool add_under_name(const char* name) {
  using named = named_function<Signature>;
  using arguments = typename named::parameters;
  using lent_arguments = typename named::lent_parameters;
  using creating = invocation<Target, void, true, arguments>;
  using lent = invocation<Target, void, false, lent_arguments>;
  using lent_creating = invocation<Target, void, true, lent_arguments>;
  const auto add = [name]<class C>(std::uint64_t hash, std::type_identity<C>,
                                   std::string (*structure)()) {
    // Never destroyed: calls may arrive while the process ends.
    return add_function(*new function_entry{hash, name, &C::invoke, &C::skip, structure});
  };
  const auto whole = &Call::structure::text;
  const auto made = &creating::structure::text;
  bool added = add(named::hash(name), std::type_identity<Call>(), whole) &&
               add(named::creating_hash(name), std::type_identity<creating>(), made);
  // A function without parameters is lent nothing.
  constexpr auto count = std::tuple_size_v<arguments>;
  if constexpr (count > 0)
    added = added &&
            add(named::template hash<lent_arguments>(name), std::type_identity<lent>(), whole) &&
            add(named::template creating_hash<lent_arguments>(name),
                std::type_identity<lent_creating>(), made);
  return added;
}

/// F without its last arguments, as many as are missing, which have defaults.
template <auto F, std::size_t Missing>
bool register_shortened(const char* name) {
  using target = shortened_target<F, Missing>;
  using given = typename target::template parameters<void>;
  using call = invocation<target, void, false, given>;
  return add_under_name<target, call,
                        typename signature_of<typename target::returned, given>::type>(name);
}

// An overloaded function does not compile: the name of the class in the error says why.
template <name_the_overload_with_static_cast>
bool register_function(const char*) = delete;

/// Lets other programs call F as `name`, which lives as long as the process; also without the
/// arguments that have defaults.
template <auto F>
bool register_function(const char* name) {
  using check = call_check<function_target<F>, void>;
  if constexpr (check::returns && defaults_check<F>::ok) {
    const auto shortened = [name]<std::size_t... I>(std::index_sequence<I...>) {
      return (true && ... && register_shortened<F, I + 1>(name));
    };
    return add_under_name<function_target<F>, callable<F>,
                          typename plain_signature<decltype(F)>::type>(name) &&
           shortened(std::make_index_sequence<default_count<F>>());
  }
}

/// Enters the calls of F that leave arguments to the defaults, in a program that makes none itself.
template <auto F>
bool enter_short_calls() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return (true && ... &&
            invocation<shortened_target<F, I + 1>, void, false,
                       typename shortened_target<F, I + 1>::template parameters<void>>::registered);
  }
  (std::make_index_sequence<default_count<F>>());
}

}  // namespace troupe::detail

/// Registers a function for calls by name, under its own name as it is written here, or under
/// another one: `TROUPE_FUNCTION(add)`, `TROUPE_FUNCTION_AS("sum", add)`; an overloaded one as
/// `TROUPE_FUNCTION_AS("sum", static_cast<int (*)(int, int)>(add))`. At namespace scope.
#define TROUPE_FUNCTION(function) TROUPE_FUNCTION_AS(#function, function)
#define TROUPE_FUNCTION_AS(name, function)                                        \
  [[maybe_unused]] static const bool TROUPE_JOIN(troupe_function_, __COUNTER__) = \
      ::troupe::detail::register_function<function>(name);
