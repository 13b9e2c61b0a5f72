#pragma once

#include "troupe/actors/rpc/calls.hpp"

namespace troupe::detail {

/// The calls of a function that is called by a registered name, by programs that do not have it
/// themselves: what is sent, and the hashes of their entries.
template <class Signature>
struct named_function;
template <class R, class... Args>
struct named_function<R(Args...)> {
  using answer = typename answer_of<std::remove_cvref_t<R>>::type;
  using parameters = std::tuple<std::decay_t<Args>...>;

  /// What is sent when rrefs are given for some of the values: only the caller knows for which.
  using lent_parameters = std::tuple<value_or_loan<std::decay_t<Args>>...>;

  /// What is sent with such arguments: `parameters` or `lent_parameters`.
  template <class... Given>
  using wire = std::conditional_t<std::is_same_v<wire_for<parameters, Given...>, parameters>,
                                  parameters, lent_parameters>;

  /// The hash of the entry for a call with this wire.
  template <class Wire = parameters>
  static std::uint64_t hash(std::string_view name) {
    return with_structure<parameters, answer>(wire_hash<Wire>(name));
  }
  /// The same for a call whose result stays on the callee.
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

}  // namespace troupe::detail
