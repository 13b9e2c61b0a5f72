#pragma once

#include "troupe/actors/rref/defaults.hpp"
#include "troupe/actors/rref/creation.hpp"

namespace troupe::detail {

/// A function that goes by a name of its own, for programs that do not have it themselves.
template <class Signature>
struct named_function;
template <class R, class... Args>
struct named_function<R(Args...)> {
  using answer = typename answer_of<std::remove_cvref_t<R>>::type;
  using parameters = std::tuple<std::decay_t<Args>...>;

  /// What travels where rrefs are given for values, which the caller alone knows: it fits all.
  using lent_parameters = std::tuple<value_or_loan<std::decay_t<Args>>...>;

  /// What travels with such arguments: `parameters` or `lent_parameters`.
  template <class... Given>
  using wire = std::conditional_t<std::is_same_v<wire_for<parameters, Given...>, parameters>,
                                  parameters, lent_parameters>;

  /// Of the entry for a call with this wire.
  template <class Wire = parameters>
  static std::uint64_t hash(std::string_view name) {
    return with_structure<parameters, answer>(wire_hash<Wire>(name));
  }
  /// Of the one whose result stays.
  template <class Wire = parameters>
  static std::uint64_t creating_hash(std::string_view name) {
    return with_structure<parameters>(hash_name("remote", wire_hash<Wire>(name)));
  }

private:
  template <class Wire>
  static std::uint64_t wire_hash(std::string_view name) {
    constexpr bool lent = !std::is_same_v<Wire, parameters>;
    return lent ? hash_name("lent", name_hash(name)) : name_hash(name);
  }
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
struct plain_signature {
  static_assert(!std::is_same_v<F, F>,
                "what goes by a name of its own is a function, no lambda and no member function");
  using type = void();  // for those who go on all the same
};
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

/// Enters the calls of a target, whose answer travels or stays, by a name and as a Signature: with
/// values (`Call`), and with values and loans.
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

// An overloaded function does not compile: the class that is wanted says why.
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

/// Asks the owner of `core` to create its value by the function of that name, once the values of
/// futures are there.
template <class Signature, class... Args>
void send_creation_by_name(node_core& node, const std::shared_ptr<rref_core>& core,
                           std::string_view name, const Args&... args) {
  using named = named_function<Signature>;
  if constexpr ((is_future<Args> || ...)) {
    when_given<typename named::parameters>(
        node,
        [core, name](node_core& here, const auto&... xs) {
          send_creation_by_name<Signature>(here, core, name, xs...);
        },
        [core, name](std::exception_ptr why) {
          core->on_fault(describe(std::move(why), {}, std::string(name)));
        },
        args...);
  } else {
    using wire = typename named::template wire<Args...>;
    send_creation<wire>(node, core, named::template creating_hash<wire>(name), name, args...);
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
