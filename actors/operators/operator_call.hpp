#pragma once

#include "troupe/actors/operators/argument.hpp"
#include "troupe/actors/operators/served_operator.hpp"

// Calls of operators, at the caller; at the callee: served_operator.hpp.
namespace troupe {

class destination;
class rpc_agent;

namespace detail {

/// Calls an operator on another node, once the values of futures among its arguments are there.
/// Throws like rpc_async, and unknown_function when ATen has no operator of that name.
future<op_result> call_operator(rpc_agent& agent, const destination& to, op_request&& what,
                                const call_options& how);

/// A reference to the operator's result, which stays there as a `type`, by the entry with the hash
/// `kind`. Errors are thrown where the reference is used. Throws like `call_operator`.
std::shared_ptr<rref_use> create_by_operator(rpc_agent& agent, const destination& to,
                                             op_request&& what, const call_options& how,
                                             std::uint64_t kind, const value_type& type);

/// The same, kept as a T.
template <class T>
std::shared_ptr<rref_use> create_by_operator(rpc_agent& agent, const destination& to,
                                             op_request&& what, const call_options& how) {
  using call = operator_creation<T>;
  (void)call::registered;
  return create_by_operator(agent, to, std::move(what), how, call::hash(), value_type::of<T>());
}

}  // namespace detail

}  // namespace troupe
