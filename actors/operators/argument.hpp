#pragma once

#include <algorithm>
#include <functional>
#include <iterator>

#include "troupe/actors/future/combinators.hpp"
#include "troupe/actors/messaging/call_options.hpp"
#include "troupe/actors/messaging/rref_id.hpp"
#include "troupe/actors/operators/value.hpp"

namespace troupe {

template <class T>
class rref;
template <class T>
class task;

namespace detail {

/// The types of values that an rref may lend to an operator. Their places are sent: append, never
/// reorder.
using lent_to_operators =
    std::tuple<at::Tensor, op_result, bool, std::int32_t, std::int64_t, float, double,
               std::complex<double>, std::string, std::vector<at::Tensor>,
               std::vector<std::int64_t>, std::vector<double>, std::vector<bool>>;

template <class T, class... Ts>
constexpr std::uint8_t place_among(std::type_identity<std::tuple<Ts...>>) {
  constexpr bool same[] = {std::is_same_v<T, Ts>...};
  return static_cast<std::uint8_t>(std::find(std::begin(same), std::end(same), true) -
                                   std::begin(same));
}

/// The place of T among them; one past the last if it is none.
template <class T>
inline constexpr std::uint8_t lent_place = place_among<T>(std::type_identity<lent_to_operators>());

template <class T>
concept lent_to_operator = lent_place<T> < std::tuple_size_v<lent_to_operators>;

/// An argument that is sent as a loan: its place (those with a name last), the place of its type in
/// `lent_to_operators`, and the value.
struct op_loan {
  std::uint32_t place = 0;
  std::uint8_t type = 0;
  rref_id id{};
  friend constexpr auto troupe_fields(const op_loan*) {
    return std::make_tuple(&op_loan::place, &op_loan::type, &op_loan::id);
  }
};

/// An argument of an operator: a value, an rref of one, or a future of either.
class op_argument {
public:
  template <class T>
  requires std::is_constructible_v<op_value, const T&> op_argument(const T& x) : value_(x) {}

  /// The callee fetches the value.
  template <class T>
  requires lent_to_operator<T> op_argument(const rref<T>& x)
      : lends_(lending{lent_place<T>, x.core()}) {}

  /// Throws invalid_argument when it belongs to no call.
  template <class T>
  requires std::is_constructible_v<op_argument, const T&> op_argument(const future<T>& x)
      : awaited_((x.state(), x.shared())),
        read_([from = x.shared()] { return op_argument(*from->value()); }) {}
  template <class T>
  requires std::is_constructible_v<op_argument, const T&> op_argument(const task<T>& x)
      : op_argument(x.result()) {}

  struct lending {
    std::uint8_t type;  ///< its place in `lent_to_operators`
    std::shared_ptr<rref_use> from;
  };

  /// nullptr: the value is there.
  const std::shared_ptr<future_core>& awaited() const noexcept { return awaited_; }

  /// The argument itself, once nothing is awaited. Throws invalid_argument.
  op_argument known() const { return read_ ? read_() : *this; }

  /// The value; none if it is lent, or awaited.
  const op_value& value() const noexcept { return value_; }
  const std::optional<lending>& lends() const noexcept { return lends_; }

private:
  op_value value_;
  std::optional<lending> lends_;
  std::shared_ptr<future_core> awaited_;
  std::function<op_argument()> read_;
};

/// Does `remote<T>` with these arguments call an operator by its name, whose result stays as a T?
template <class T, class... Args>
inline constexpr bool names_operator = false;
template <class T, class First, class... Rest>
inline constexpr bool names_operator<T, First, Rest...> =
    is_kept_result<T>&& std::is_convertible_v<const First&, std::string_view>;

}  // namespace detail

/// An argument of an operator by its name: `node.rpc_sync("ps", "aten::add", a, b, kw("alpha",
/// 2.0))`. After those without a name.
struct kw {
  kw(std::string name, detail::op_argument value)
      : name(std::move(name)), value(std::move(value)) {}
  std::string name;
  detail::op_argument value;
};

namespace detail {

// Arguments first, then those with a name, then options.
template <class T>
constexpr int op_argument_rank = is_call_option<T>       ? 2
                                 : std::is_same_v<T, kw> ? 1
                                                         : 0;

/// The name and arguments of a call of an operator, as the program gives them.
struct op_request {
  template <class... Args>
  op_request(std::string_view name, const Args&... args) : name(name) {
    constexpr int ranks[] = {0, op_argument_rank<Args>...};
    static_assert(std::ranges::is_sorted(ranks),
                  "arguments of an operator come first, then those with a name, kw(\"alpha\", 2), "
                  "then timeout and no_wait");
    (add(args), ...);
  }

  template <class T>
  void add(const T& x) {
    if constexpr (std::is_same_v<T, kw>)
      named.emplace_back(x.name, x.value);
    else if constexpr (!is_call_option<T>) {
      static_assert(std::is_constructible_v<op_argument, const T&>,
                    "an operator takes no argument of this type");
      positional.emplace_back(x);
    }
  }

  std::string name;
  std::vector<op_argument> positional;
  std::vector<std::pair<std::string, op_argument>> named;
};

}  // namespace detail

}  // namespace troupe
