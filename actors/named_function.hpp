#pragma once

#include "actors/rref/creation.hpp"

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
  using arguments = typename callable<F>::arguments;
  using lent_arguments = typename named::lent_parameters;
  using target = function_target<F>;
  using creating = invocation<target, void, true, arguments>;
  using lent = invocation<target, void, false, lent_arguments>;
  using lent_creating = invocation<target, void, true, lent_arguments>;
  const auto add = [name]<class Call>(std::uint64_t hash, std::type_identity<Call>,
                                      std::string (*structure)()) {
    // Never destroyed: calls may arrive while the process ends.
    return add_function(*new function_entry{hash, name, &Call::invoke, &Call::skip, structure});
  };
  const auto whole = &callable<F>::structure::text;
  const auto made = &creating::structure::text;
  bool added = add(named::hash(name), std::type_identity<callable<F>>(), whole) &&
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
/// by name: `TROUPE_FUNCTION(add)`, `TROUPE_FUNCTION_AS("sum", add)`. At namespace scope.
#define TROUPE_FUNCTION(function) TROUPE_FUNCTION_AS(#function, function)
#define TROUPE_FUNCTION_AS(name, function)                                        \
  [[maybe_unused]] static const bool TROUPE_JOIN(troupe_function_, __COUNTER__) = \
      ::troupe::detail::register_function<&function>(name);
