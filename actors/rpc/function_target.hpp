#pragma once

#include <functional>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "troupe/messages/codec/signature.hpp"

namespace troupe::detail {

/// What can be invoked: a function, a lambda or a member function.
template <auto F>
struct function_target {
  using function = signature<std::remove_const_t<decltype(F)>>;
  using result = typename function::result;
  static constexpr bool constructs = false;
  static constexpr bool is_member = std::is_member_function_pointer_v<decltype(F)>;
  static constexpr std::string_view name = function_name<F>();
  static std::uint64_t hash() { return function_hash<F>(); }

  template <class Arguments>
  struct without_first {
    using type = Arguments;
  };
  template <class First, class... Rest>
  struct without_first<std::tuple<First, Rest...>> {
    using type = std::tuple<Rest...>;
  };

  /// What the caller gives. A function that is called on an rref takes its value first.
  template <class Object>
  using parameters = typename std::conditional_t<std::is_void_v<Object> || is_member,
                                                 std::type_identity<typename function::arguments>,
                                                 without_first<typename function::arguments>>::type;

  /// Can it be called on the value of an rref<Object>? Without one (void) anything can.
  template <class Object>
  static constexpr bool takes_object() {
    if constexpr (std::is_void_v<Object>)
      return true;
    else if constexpr (is_member)
      return is_of<Object, typename function::object>;
    else if constexpr (function::arity > 0)
      return std::is_convertible_v<Object&, std::tuple_element_t<0, typename function::declared>>;
    else
      return false;
  }

  /// Has it an output parameter, other than that for the value?
  template <class Object>
  static constexpr bool has_output_parameter() {
    return []<class... Args>(std::type_identity<std::tuple<Args...>>) {
      [[maybe_unused]] std::size_t place = std::is_void_v<Object> || is_member ? 1 : 0;
      return (false || ... ||
              (place++ > 0 && std::is_lvalue_reference_v<Args> &&
               !std::is_const_v<std::remove_reference_t<Args>>));
    }(std::type_identity<typename function::declared>());
  }

  /// What a member function is called on, given the rref's value: that, or what it points to, as
  /// torch::nn's modules and smart pointers do.
  template <class T>
  static auto& object(T& value) {
    if constexpr (is_member) {
      using wanted = typename function::object;
      if constexpr (std::is_base_of_v<wanted, T>)
        return value;
      else
        return *value;
    } else {
      return value;
    }
  }

  template <class... Xs>
  static decltype(auto) call(Xs&&... xs) {
    return std::invoke(F, std::forward<Xs>(xs)...);
  }

private:
  template <class T, class Class>
  static constexpr bool is_of = std::is_base_of_v<Class, T> || requires(T& x) {
    requires std::is_base_of_v<Class, std::remove_cvref_t<decltype(*x)>>;
  };
};

}  // namespace troupe::detail
