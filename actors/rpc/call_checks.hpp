#pragma once

#include "troupe/actors/messaging/call_options.hpp"
#include "troupe/actors/rpc/function_table.hpp"

// Says at compile time what is wrong with a call, before anything else can go wrong. Code that
// instantiates one of these looks at its `ok`, and compiles the call only if that is true, so that
// there is no other error.
namespace troupe {

template <class T>
class rref;
class op_result;

/// The compiler names it in its error for a call of an overloaded function, or of a template: say
/// which one is meant, as in `rpc_sync<static_cast<int (*)(int)>(&f)>("worker1", x)`.
struct name_the_overload_with_static_cast {};

namespace detail {

/// Does an argument convert to a parameter of that type? For a future or an rref: does its value
/// convert, without a copy for that?
template <class Given, class Parameter>
inline constexpr bool converts = std::is_convertible_v<const Given&, Parameter>;
template <class T, class Parameter>
inline constexpr bool converts<future<T>, Parameter> =
    std::is_convertible_v<const stored<T>&, const Parameter&>;
template <class T, class Parameter>
inline constexpr bool converts<rref<T>, Parameter> =
    std::is_convertible_v<const stored<T>&, const Parameter&>;
template <class T, class Parameter>
inline constexpr bool converts<future<rref<T>>, Parameter> = converts<rref<T>, Parameter>;
template <class T, class Element>
inline constexpr bool converts<rref<T>, rref<Element>> = std::is_same_v<T, Element>;
/// The result of an operator is converted when it is read.
template <class Parameter>
inline constexpr bool converts<rref<op_result>, Parameter> = true;
template <class Element>
inline constexpr bool converts<rref<op_result>, rref<Element>> = std::is_same_v<op_result, Element>;

template <std::size_t Place, class Given, class Parameter>
struct argument_check {
  static constexpr bool ok = converts<Given, Parameter>;
  static_assert(ok, "an argument of the call does not convert to the function's parameter");
};

/// Do options stand behind all that is no option?
template <class... Given>
constexpr bool options_are_last() {
  bool option = false;
  bool last = true;
  ((last = last && (is_call_option<Given> || !option), option = is_call_option<Given>), ...);
  return last;
}

/// Do `Given`, options behind them, fit a tuple of parameters?
template <class Parameters, class... Given>
struct arguments_check {
  static constexpr std::size_t wanted = std::tuple_size_v<Parameters>;
  static constexpr std::size_t given = sizeof...(Given) - option_count<Given...>;
  static constexpr bool in_order = options_are_last<Given...>();

  static_assert(in_order, "timeout, priority, no_wait and retry must follow the call's arguments");
  static_assert(given >= wanted,
                "the call has too few arguments for the function: those that may be left out are "
                "named by TROUPE_DEFAULTS(&f, values...)");
  static_assert(given <= wanted, "the call has too many arguments for the function");

  template <std::size_t... I>
  static constexpr bool convert(std::index_sequence<I...>) {
    using all = std::tuple<Given...>;
    return (
        true && ... &&
        argument_check<I, std::tuple_element_t<I, all>, std::tuple_element_t<I, Parameters>>::ok);
  }
  static constexpr bool all_convert() {
    if constexpr (in_order && given == wanted)
      return convert(std::make_index_sequence<wanted>());
    else
      return false;
  }
  static constexpr bool ok = all_convert();
};

/// May an rref, if that is given, stand for a parameter of a function by name?
template <class Given, class Parameter>
inline constexpr bool lends_alike = true;
template <class T, class Parameter>
inline constexpr bool lends_alike<rref<T>, Parameter> = std::is_same_v<T, Parameter>;
template <class T, class Element>
inline constexpr bool lends_alike<rref<T>, rref<Element>> = true;
template <class T, class Parameter>
inline constexpr bool lends_alike<future<rref<T>>, Parameter> = lends_alike<rref<T>, Parameter>;

template <std::size_t Place, class Given, class Parameter>
struct loan_check {
  static constexpr bool ok = lends_alike<Given, Parameter>;
  static_assert(ok,
                "an rref passed to a function called by name must have exactly the parameter's "
                "type");
};

/// The same for a function by name.
template <class Parameters, class... Given>
struct named_arguments_check {
  template <std::size_t... I>
  static constexpr bool lend(std::index_sequence<I...>) {
    using all = std::tuple<Given...>;
    return (true && ... &&
            loan_check<I, std::tuple_element_t<I, all>, std::tuple_element_t<I, Parameters>>::ok);
  }
  static constexpr bool check() {
    if constexpr (arguments_check<Parameters, Given...>::ok)
      return lend(std::make_index_sequence<std::tuple_size_v<Parameters>>());
    else
      return false;
  }
  static constexpr bool ok = check();
};

/// Can `Target`, a function_target, be called on a value of type Object (or void: on none)?
template <class Target, class Object, class... Given>
struct call_check {
  static constexpr bool has_object = Target::template takes_object<Object>();
  static_assert(has_object || !Target::is_member,
                "the member function belongs neither to the class of the rref's value nor to what "
                "it points to");
  static_assert(has_object || Target::is_member,
                "a function that is called on an rref takes the value first, as a T&");

  static constexpr bool returns = !Target::template has_output_parameter<Object>();
  static_assert(
      returns,
      "the function has an output parameter, a reference that is not const, and the caller "
      "would not see what is written there: return the result instead");

  static constexpr bool check_arguments() {
    if constexpr (has_object && returns)
      return arguments_check<typename Target::template parameters<Object>, Given...>::ok;
    else
      return false;
  }
  static constexpr bool ok = check_arguments();
};

/// Can a T be made from the values of `Given`?
template <class T, class... Given>
struct construction_check {
  static constexpr bool in_order = options_are_last<Given...>();
  static_assert(in_order, "timeout, priority, no_wait and retry must follow the call's arguments");

  template <std::size_t... I>
  static constexpr bool constructs(std::index_sequence<I...>) {
    using all = std::tuple<Given...>;
    return std::is_constructible_v<T, std::tuple_element_t<I, all>...>;
  }
  static constexpr bool can_be_made() {
    if constexpr (in_order)
      return constructs(std::make_index_sequence<sizeof...(Given) - option_count<Given...>>());
    else
      return true;
  }
  static_assert(can_be_made(), "the type has no constructor for these arguments");
  static constexpr bool ok = in_order && can_be_made();
};

/// The first template parameter of an overload that is for calls without template arguments only.
enum class deduced {};

/// Is Name, given in place of the name of a TROUPE_FUNCTION, a type that no literal has?
template <class Name>
concept no_literal = !std::is_convertible_v<const Name&, const char*>;

template <class Name>
struct unnamable {
  static_assert(!std::is_same_v<Name, Name>,
                "the name of a function, after the callee, must be a string literal: "
                "rpc_sync<int(int)>(\"worker1\", \"square\", 7)");
};

/// Is F, given where a lambda may stand, neither a lambda that can be called nor an operator's
/// name?
template <class F>
concept not_to_be_called = !captureless<F> && !std::is_convertible_v<const F&, std::string_view>;

template <class F>
inline constexpr bool is_function_pointer = std::is_function_v<F> || std::is_member_pointer_v<F> ||
                                            (std::is_pointer_v<F> &&
                                             std::is_function_v<std::remove_pointer_t<F>>);

/// Says why F cannot be called.
template <class F>
struct uncallable {
  static constexpr bool pointer = is_function_pointer<F>;
  static constexpr bool generic = std::is_class_v<F> && std::is_empty_v<F>;
  static constexpr bool captures = std::is_class_v<F> && !generic;

  static_assert(!pointer,
                "a function is given as a template argument: rpc_sync<&f>(\"worker1\", x), or "
                "rpc_sync<&T::f>(x) of an rref");
  static_assert(!generic, "a lambda that another node calls has no auto among its parameters");
  static_assert(!captures,
                "a lambda that another node calls captures nothing: what it needs are arguments of "
                "the call");
  static_assert(pointer || generic || captures,
                "a call takes a function as a template argument, rpc_sync<&f>(\"worker1\", x), or "
                "a lambda or the name of an operator after the callee");
};

}  // namespace detail

}  // namespace troupe
