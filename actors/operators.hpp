#pragma once

#include <algorithm>
#include <functional>

#include "actors/operators/value.hpp"
#include "actors/timeout.hpp"
#include "actors/when.hpp"

namespace troupe {

class destination;
class node_core;
template <class T>
class task;

namespace detail {

/// An argument of an operator: a value, or a future of one.
class op_argument {
public:
  template <class T>
  requires std::is_constructible_v<op_value, const T&> op_argument(const T& x) : value_(x) {}

  /// Throws invalid_argument when it belongs to no call.
  template <class T>
  op_argument(const future<T>& x)
      : awaited_((x.state(), x.shared())),
        read_([from = x.shared()] { return op_value(*from->value()); }) {}
  template <class T>
  op_argument(const task<T>& x) : op_argument(x.result()) {}

  /// nullptr: it is there.
  const std::shared_ptr<future_core>& awaited() const noexcept { return awaited_; }
  op_value value() const { return read_ ? read_() : value_; }

private:
  op_value value_;
  std::shared_ptr<future_core> awaited_;
  std::function<op_value()> read_;
};

}  // namespace detail

/// An argument of an operator by its name: `node.rpc_sync("ps", "aten::add", a, b, kw("alpha",
/// 2.0))`. Behind those without one.
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

/// What a call of an operator is made of.
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

/// Calls it on another node. Throws like rpc_async, and unknown_function when an operator of ATen
/// is meant that there is not.
future<op_result> call_operator(node_core& node, const destination& to, op_request&& what,
                                const call_options& how);

/// The arguments of an operator whose result shall stay there. Throws like `call_operator`.
op_arguments values_for_creation(node_core& node, const destination& to, const op_request& what);

/// The callee's side: finds the operator, by its name and arguments, and runs it.
op_result run_operator(std::string name, std::vector<op_value> positional,
                       std::vector<std::pair<std::string, op_value>> named);

}  // namespace detail

}  // namespace troupe
