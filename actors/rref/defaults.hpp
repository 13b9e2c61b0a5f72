#pragma once

#include "troupe/actors/rpc/function_target.hpp"
#include "troupe/actors/rref/invocation.hpp"

/// Default arguments for the last parameters of a function, for calls from other nodes that leave
/// them out: `TROUPE_DEFAULTS(&train, 0.1, 10)`. The callee evaluates them for each such call, on
/// the thread that runs it, so its build determines the values. Write it outside of all namespaces,
/// before the calls and before TROUPE_FUNCTION. Member functions, which are called on rrefs, may
/// have it too.
#define TROUPE_DEFAULTS(Function, ...)                            \
  template <>                                                     \
  struct troupe::default_arguments<Function> {                    \
    static auto values() { return std::make_tuple(__VA_ARGS__); } \
  };

namespace troupe {

/// The default arguments of F: specialised by TROUPE_DEFAULTS.
template <auto F>
struct default_arguments {
  static std::tuple<> values() { return {}; }
};

namespace detail {

template <auto F>
inline constexpr std::size_t default_count =
    std::tuple_size_v<decltype(default_arguments<F>::values())>;

/// The elements of a tuple from `First` on, as many as there are indexes.
template <std::size_t First, class Tuple, class Indexes>
struct tuple_part;
template <std::size_t First, class Tuple, std::size_t... I>
struct tuple_part<First, Tuple, std::index_sequence<I...>> {
  using type = std::tuple<std::tuple_element_t<First + I, Tuple>...>;
};
template <std::size_t First, std::size_t Count, class Tuple>
using tuple_part_t = typename tuple_part<First, Tuple, std::make_index_sequence<Count>>::type;

/// F, called without its last arguments. Their number is not in the hash: the types of those that
/// are sent imply it.
template <auto F, std::size_t Missing>
struct shortened_target : function_target<F> {
  using whole = function_target<F>;
  using function = typename whole::function;
  using returned = std::remove_cvref_t<typename whole::result>;
  static constexpr std::size_t arity = function::arity;
  static constexpr std::size_t defaults = default_count<F>;
  using missing = tuple_part_t<arity - Missing, Missing, typename function::arguments>;

  // A copy: a reference might refer to one of the defaults.
  using result = returned;

  template <class Object>
  using parameters =
      tuple_part_t<0, std::tuple_size_v<typename whole::template parameters<Object>> - Missing,
                   typename whole::template parameters<Object>>;

  static std::uint64_t hash() { return hash_name("with defaults", whole::hash()); }

  template <class... Xs>
  static returned call(Xs&&... xs) {
    if constexpr (answer_of<returned>::later) {
      // Kept until the answer: a coroutine may refer to them.
      const auto rest = std::make_shared<missing>(values(last));
      returned made = call_with(*rest, last, std::forward<Xs>(xs)...);
      const future<typename answer_of<returned>::type> later = made;
      if (later.valid() && !later.ready()) later.state().when_ready(make_continuation([rest] {}));
      return made;
    } else {
      auto rest = values(last);
      return call_with(rest, last, std::forward<Xs>(xs)...);
    }
  }

private:
  static constexpr std::make_index_sequence<Missing> last{};

  template <std::size_t... I>
  static missing values(std::index_sequence<I...>) {
    auto all = default_arguments<F>::values();
    return missing(static_cast<std::tuple_element_t<I, missing>>(
        std::get<defaults - Missing + I>(std::move(all)))...);
  }

  template <std::size_t... I, class... Xs>
  static decltype(auto) call_with(missing& rest, std::index_sequence<I...>, Xs&&... xs) {
    return std::invoke(F, std::forward<Xs>(xs)..., std::get<I>(std::move(rest))...);
  }
};

/// Do the values of TROUPE_DEFAULTS fit F's last parameters?
template <auto F>
struct defaults_check {
  using parameters = typename function_target<F>::function::arguments;
  using values = decltype(default_arguments<F>::values());
  static constexpr std::size_t count = std::tuple_size_v<values>;
  static constexpr bool few = count <= std::tuple_size_v<parameters>;
  static_assert(few, "TROUPE_DEFAULTS has more values than the function has parameters");

  template <std::size_t... I>
  static constexpr bool convert(std::index_sequence<I...>) {
    return (true && ... &&
            std::is_convertible_v<
                std::tuple_element_t<I, values>&&,
                std::tuple_element_t<std::tuple_size_v<parameters> - count + I, parameters>>);
  }
  static constexpr bool all_convert() {
    if constexpr (few)
      return convert(std::make_index_sequence<count>());
    else
      return true;
  }
  static_assert(all_convert(),
                "a value of TROUPE_DEFAULTS does not convert to the function's parameter");
  static constexpr bool ok = few && all_convert();
};

/// The number of F's arguments that a call leaves to the defaults.
template <auto F, class Object, class... Given>
constexpr std::size_t left_out() {
  if constexpr (default_count < F >> 0) {
    if constexpr (defaults_check<F>::ok) {
      constexpr auto wanted =
          std::tuple_size_v<typename function_target<F>::template parameters<Object>>;
      constexpr auto given = sizeof...(Given) - option_count<Given...>;
      if constexpr (given < wanted && wanted - given <= default_count<F>) return wanted - given;
    }
  }
  return 0;
}

template <auto F, std::size_t Missing>
struct target_without {
  using type = shortened_target<F, Missing>;
};
template <auto F>
struct target_without<F, 0> {
  using type = function_target<F>;
};

/// The target of a call of F, on an Object (or void), with such arguments.
template <auto F, class Object, class... Given>
using target_for = typename target_without<F, left_out<F, Object, Given...>()>::type;

}  // namespace detail

}  // namespace troupe
