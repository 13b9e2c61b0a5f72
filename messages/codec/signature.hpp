#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <typeinfo>

#include "troupe/messages/base/type_name.hpp"

// What functions that can be called from other nodes take and return, and what they are called by.
namespace troupe::detail {

/// A lambda without captures, and without `auto` among its parameters.
template <class F>
concept captureless =
    std::is_class_v<F> && std::is_empty_v<F> && std::is_default_constructible_v<F> && requires {
  &F::operator();
};

/// The parameters and the result of a function, a member function or a captureless lambda.
template <class F>
struct signature {
  static_assert(!std::is_same_v<F, F>,
                "only a function, a lambda without captures or a member function of an rref's "
                "value can be called from another node, as in rpc_sync<&f>(\"worker1\", x)");
  // So that no further errors follow the one above.
  using result = void;
  using arguments = std::tuple<>;
  using declared = arguments;
  static constexpr std::size_t arity = 0;
};

template <class R, class... Args>
struct signature<R (*)(Args...)> {
  using result = R;
  using arguments = std::tuple<std::decay_t<Args>...>;
  using declared = std::tuple<Args...>;  ///< a name only: references among them
  static constexpr std::size_t arity = sizeof...(Args);
};
template <class R, class... Args>
struct signature<R (*)(Args...) noexcept> : signature<R (*)(Args...)> {};

template <class C, class R, class... Args>
struct signature<R (C::*)(Args...)> : signature<R (*)(Args...)> {
  using object = C;
};
template <class C, class R, class... Args>
struct signature<R (C::*)(Args...) const> : signature<R (C::*)(Args...)> {};
template <class C, class R, class... Args>
struct signature<R (C::*)(Args...) noexcept> : signature<R (C::*)(Args...)> {};
template <class C, class R, class... Args>
struct signature<R (C::*)(Args...) const noexcept> : signature<R (C::*)(Args...)> {};

template <captureless F>
struct signature<F> : signature<decltype(&F::operator())> {};

/// The hash of the name and type of the function F, by which it is called. Lambdas have equal names
/// in the compiler's pretty format, so the linker's name of their type stands for them.
template <auto F>
std::uint64_t function_hash() {
  using type = std::remove_const_t<decltype(F)>;
  if constexpr (std::is_class_v<type>) {
    static const auto hash = hash_name(typeid(type).name());
    return hash;
  } else {
    constexpr auto hash = hash_name(type_name<type>(), hash_name(function_name<F>()));
    return hash;
  }
}

}  // namespace troupe::detail
