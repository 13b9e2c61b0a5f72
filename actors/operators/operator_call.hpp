#pragma once

#include "troupe/actors/operators/argument.hpp"
#include "troupe/actors/operators/served_operator.hpp"

// How the calls of operators are made; how they are served: operators/served_operator.hpp.
namespace troupe {

class destination;
class node_core;

namespace detail {

/// Calls it on another node, when the values of its futures are there. Throws like rpc_async, and
/// unknown_function when an operator of ATen is meant that there is not.
future<op_result> call_operator(node_core& node, const destination& to, op_request&& what,
                                const call_options& how);

/// A reference to what it will return there, by the entry `kind` that keeps a `type` of it. What
/// goes wrong is told by the reference. Throws like `call_operator`.
std::shared_ptr<rref_core> create_by_operator(node_core& node, const destination& to,
                                              op_request&& what, const call_options& how,
                                              std::uint64_t kind, const value_type& type);

/// The same, kept as a T.
template <class T>
std::shared_ptr<rref_core> create_by_operator(node_core& node, const destination& to,
                                              op_request&& what, const call_options& how) {
  using call = operator_creation<T>;
  (void)call::registered;
  return create_by_operator(node, to, std::move(what), how, call::hash(), value_type::of<T>());
}

}  // namespace detail

}  // namespace troupe
