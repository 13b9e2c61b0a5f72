#include "troupe/actors/operators/served_operator.hpp"

#include <array>
#include <iterator>

#include "troupe/actors/operators/argument.hpp"
#include "troupe/actors/operators/ivalue_internal.hpp"
#include "troupe/actors/operators/overloads_internal.hpp"
#include "troupe/actors/operators/permission.hpp"
#include "troupe/actors/operators/value_internal.hpp"
#include "troupe/actors/rpc/rpc_node.hpp"
#include "troupe/actors/rref/fetch.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"

namespace troupe::detail {

namespace {

// The functions for loans of values of one type.
struct lent_type {
  std::shared_ptr<future_core> (*borrow)(rref_table& table, const rref_id& id, bool holds);
  op_value (*value)(future_core& state);
};

template <class... Ts>
constexpr auto lent_types_of(std::type_identity<std::tuple<Ts...>>) {
  return std::array{lent_type{
      [](rref_table& table, const rref_id& id, bool holds) -> std::shared_ptr<future_core> {
        return borrow<Ts>(table, loan<Ts>{id}, holds);
      },
      [](future_core& state) { return op_value(*static_cast<future_state<Ts>&>(state).value()); },
  }...};
}
constexpr auto lent_types = lent_types_of(std::type_identity<lent_to_operators>());

// More than any operator has arguments.
constexpr std::size_t most_loans = 256;

struct read_call {
  op_arguments given;
  std::vector<op_loan> loans;
};

// What follows the name.
read_call read_arguments_of_operator(decoder& in) {
  read_call out;
  in.get_into(out.given.positional);
  in.get_into(out.given.named);
  in.get_into(out.loans);
  in.expect_end();
  in.let_tensors_go();
  // Each loan costs a call to the value's owner, so their number is limited.
  if (out.loans.size() > most_loans)
    throw decode_error(std::to_string(out.loans.size()) + " values are lent to an operator");
  std::size_t next = 0;
  for (const auto& one : out.loans) {
    if (one.place < next || one.place >= out.given.positional.size() + out.given.named.size() ||
        one.type >= lent_types.size())
      throw decode_error("a value is lent for an argument that the operator does not have");
    next = one.place + std::size_t{1};
  }
  return out;
}

op_value& argument_at(op_arguments& given, std::size_t place) {
  const auto unnamed = given.positional.size();
  return place < unnamed ? given.positional[place] : given.named[place - unnamed].second;
}

[[noreturn]] void throw_named(fault why, const std::string& name) {
  if (why.function.empty()) why.function = name.substr(0, longest_shown_name);
  std::rethrow_exception(to_exception(std::move(why)));
}

/// A call of an operator, until it has been answered.
class served_operator {
public:
  served_operator(reply_token&& reply, const result_keeper* keeper)
      : reply_(std::move(reply)), keeper_(keeper) {}

  // A value is created even if the rest cannot be read: then it fails, and is known to have
  // arrived.
  void read(decoder& in, handle_scope& handles) {
    std::uint64_t number = 0;
    if (keeper_) number = in.get<std::uint64_t>();
    std::exception_ptr unreadable;
    try {
      in.get_into(name_);
      reply_.called(std::string_view(name_).substr(0, longest_shown_name));
      what_ = read_arguments_of_operator(in);
    } catch (...) {
      unreadable = std::current_exception();
    }
    if (keeper_) created_ = table_of(handles).create(number, keeper_->type, handles.other());
    if (!unreadable) return;
    unread_ = true;
    std::rethrow_exception(unreadable);
  }

  /// Asks for the lent values.
  const std::vector<std::shared_ptr<future_core>>& borrow_all(rref_table& table) {
    for (const auto& one : what_.loans)
      lent_.push_back(lent_types[one.type].borrow(table, one.id, keeper_ != nullptr));
    return lent_;
  }

  reply_token& reply() noexcept { return reply_; }

  /// `failure`: why it cannot run; null: it can.
  void run(const std::exception_ptr& failure) noexcept {
    try {
      if (failure) std::rethrow_exception(failure);
      for (std::size_t i = 0; i < lent_.size(); ++i) {
        const auto& loan = what_.loans[i];
        argument_at(what_.given, loan.place) = lent_types[loan.type].value(*lent_[i]);
      }
      auto result =
          run_operator(name_, std::move(what_.given.positional), std::move(what_.given.named));
      lent_.clear();
      if (!keeper_) return reply_.value([&](encoder& out) { put_and_drop(out, result); });
      keeper_->keep(*created_, std::move(result));
      if (created_->failure()) std::rethrow_exception(created_->failure());
      reply_.done();
    } catch (...) {
      fail(std::current_exception());
    }
  }

  void fail(std::exception_ptr why) noexcept {
    reply_.fail(std::move(why), created_.get(), unread_);
  }

private:
  std::string name_;  // first: the reply refers to it
  reply_token reply_;
  const result_keeper* const keeper_;
  bool unread_ = false;
  value_cell created_;
  read_call what_;
  std::vector<std::shared_ptr<future_core>> lent_;  // in the order of the loans
};

}  // namespace

void serve_operator(decoder& in, handle_scope& handles, reply_token&& reply,
                    const result_keeper* keeper) {
  const auto call = std::make_shared<served_operator>(std::move(reply), keeper);
  try {
    call->read(in, handles);
    auto lent = call->borrow_all(table_of(handles));
    if (std::ranges::all_of(lent, [](const auto& one) { return one->ready(); }))
      return call->run(first_failure(lent));
    const auto given_up = std::make_shared<awaited_values>(handles.owner().driver(), lent);
    call->reply().comes_from(given_up);
    after(std::move(lent), [call, given_up](const std::exception_ptr& failure) {
      const begun_later now(call->reply());
      call->run(failure ? failure : call->reply().cancelled());
    });
  } catch (...) {
    call->fail(std::current_exception());
  }
}

op_result run_operator(const std::string& name, std::vector<op_value> positional,
                       std::vector<std::pair<std::string, op_value>> named) {
  try {
    auto call =
        choose_overload(parse_operator_name(name), {std::move(positional), std::move(named)});
    static const operator_permission by_default;
    const auto* agent = current_agent();
    const auto& permission = agent ? agent->operators() : by_default;
    if (auto why = permission.refusal(call.op.schema()); !why.empty())
      throw invalid_argument(std::move(why));
    {
      // The schema's text, not the call's: a coroutine that the operator begins may outlive the
      // call.
      auto call_context = current_call_context();
      call_context.call.function = call.op.schema().name();
      const call_context_scope now(std::move(call_context));
      call.op.callBoxed(call.stack);
    }
    const auto& returns = call.op.schema().returns();
    std::vector<op_value> values;
    for (std::size_t i = 0; i < returns.size(); ++i)
      values.push_back(from_ivalue(call.stack.at(i), *returns[i].real_type()));
    return op_result(std::move(values), name);
  } catch (...) {
    throw_named(describe(std::current_exception(), {}, {}), name);
  }
}

void skip_operator(decoder& in, bool creates) {
  (void)name_of_operator(in, creates);
  (void)read_arguments_of_operator(in);
}

std::string name_of_operator(decoder& in, bool creates) {
  if (creates) in.get<std::uint64_t>();
  return in.get<std::string>().substr(0, longest_shown_name);
}

const bool operator_answer::registered = add_function(function_entry_of<operator_answer>());

// Takes their addresses, and reads none: they may be initialised after the caller.
bool serves_operators() {
  static constexpr const bool* all[] = {&operator_answer::registered,
                                        &operator_creation<op_result>::registered,
                                        &operator_creation<at::Tensor>::registered,
                                        &operator_creation<bool>::registered,
                                        &operator_creation<std::int64_t>::registered,
                                        &operator_creation<double>::registered,
                                        &operator_creation<std::vector<at::Tensor>>::registered};
  return std::size(all) > 0;
}

}  // namespace troupe::detail
