#pragma once

#include "troupe/actors/operators/value.hpp"
#include "troupe/actors/rpc/function_table.hpp"
#include "troupe/actors/rref/value_state.hpp"

// Calls of operators, at the callee. A call has the operator's name, its arguments, and the loans
// among them (op_loan); if its result stays here, the number of that value comes first.
namespace troupe::detail {

/// How the result of an operator becomes the value of an rref.
struct result_keeper {
  value_type type;
  /// Throws invalid_argument when the result is of another type.
  void (*keep)(future_core& cell, op_result&& result);
};

/// Reads a call, waits for the lent values, and runs the operator that fits its name and arguments.
/// `keeper`: for a result that stays; nullptr: the result is the answer.
void serve_operator(decoder& in, handle_scope& handles, reply_token&& reply,
                    const result_keeper* keeper);

/// Runs the operator that fits the name and arguments, if the node of the calling thread permits
/// it. Throws what the operator throws as an error with its name; invalid_argument,
/// unknown_function.
op_result run_operator(const std::string& name, std::vector<op_value> positional,
                       std::vector<std::pair<std::string, op_value>> named);

/// Reads the call and drops it.
void skip_operator(decoder& in, bool creates);

/// The name in the call, as far as an error shows it.
std::string name_of_operator(decoder& in, bool creates);

/// The entry for calls whose result is the answer.
struct operator_answer {
  static constexpr std::string_view name = "an operator";
  using structure = detail::structure<op_result>;
  static std::uint64_t hash() { return kept_identity<operator_answer>(); }
  static std::uint64_t name_hash() { return type_hash<operator_answer>(); }
  static const bool registered;

  static void invoke(decoder& in, handle_scope& handles, reply_token&& reply) {
    serve_operator(in, handles, std::move(reply), nullptr);
  }
  static void skip(decoder& in) { skip_operator(in, false); }
  static std::string called(decoder& in) { return name_of_operator(in, false); }
};

/// The entry for calls whose result stays, as a T.
template <class T>
struct operator_creation {
  static constexpr std::string_view name = "the creation of a value by an operator";
  using structure = detail::structure<T>;
  static std::uint64_t hash() { return kept_identity<operator_creation>(); }
  static std::uint64_t name_hash() { return type_hash<operator_creation>(); }

  /// Named wherever such a call is made, so that every program with the call has the entry.
  static const bool registered;

  static void invoke(decoder& in, handle_scope& handles, reply_token&& reply) {
    static const result_keeper keeper{value_type::of<T>(), &keep};
    serve_operator(in, handles, std::move(reply), &keeper);
  }
  static void skip(decoder& in) { skip_operator(in, true); }
  static std::string called(decoder& in) { return name_of_operator(in, true); }

private:
  static void keep(future_core& cell, op_result&& result) {
    auto& state = static_cast<future_state<T>&>(cell);
    if constexpr (std::is_same_v<T, op_result>)
      state.set_value(std::move(result));
    else
      state.set_value(result.template to<T>());
  }
};

template <class T>
const bool operator_creation<T>::registered =
    add_function(function_entry_of<operator_creation<T>>());

/// Keeps the entries of operators in the program, with results as tensors, numbers and lists of
/// tensors: every program with nodes serves them. True.
bool serves_operators();

}  // namespace troupe::detail
