#include "actors/operators.hpp"

#include "actors/calls.hpp"
#include "actors/current.hpp"
#include "actors/node_core.hpp"
#include "actors/operators/ivalue_internal.hpp"
#include "actors/operators/overloads_internal.hpp"

namespace troupe::detail {

namespace {

using function = callable<&run_operator>;

/// The future of a call of an operator, whose name stands where else the function's would.
class operator_state final : public remote_answer_state<op_result> {
public:
  operator_state(node_core& node, peer& callee, std::string name)
      : remote_answer_state<op_result>(node.actors(), callee, "an operator"),
        name_(std::move(name)) {}

  const std::string& name() const noexcept { return name_; }

  /// Before anybody else has it.
  void sent_as(std::uint64_t request) noexcept { request_ = request; }

  void cancel() override {
    auto why = cancelled_call({}, name_);
    if (name_callee(why) && give_up(std::move(why))) tell_callee(request_);
  }

  void on_value(opened_envelope& answer) noexcept override {
    take_apart(answer, [this](decoder& in, border&) {
      auto value = in.get<op_result>();
      in.expect_end();
      set_value(std::move(value));
    });
  }

  void on_fault(fault&& why) noexcept override {
    if (why.function == function::name) why.function = name_;
    remote_answer_state<op_result>::on_fault(std::move(why));
  }

private:
  const std::string name_;
  std::uint64_t request_ = 0;
};

[[noreturn]] void rethrow(fault why, const std::string& name) {
  if (why.function.empty()) why.function = name.substr(0, 200);
  std::rethrow_exception(to_exception(std::move(why)));
}

// All nodes have the same libtorch, so that this one knows its operators; those of a library may be
// known to the callee alone.
void check_name(const std::string& name, const std::string& callee) {
  try {
    const auto parsed = parse_operator_name(name);
    if (parsed.getNamespace() == "aten") find_operators(parsed);
  } catch (const error& e) {
    auto why = e.fault();
    why.node = callee;
    rethrow(std::move(why), name);
  }
}

op_arguments values_of(const op_request& what) {
  op_arguments out;
  for (const auto& x : what.positional) out.positional.push_back(x.value());
  for (const auto& [name, x] : what.named) out.named.emplace_back(name, x.value());
  return out;
}

future<op_result> call_now(node_core& node, const destination& to, const op_request& what,
                           const call_options& how) {
  (void)function::registered;
  auto& callee = node.find(to);
  const auto given = values_of(what);
  auto state = std::make_shared<operator_state>(node, callee, what.name);
  state->sent_as(
      node.call(callee, function::hash(), state->name(), state, how, [&](encoder& out, border&) {
        out.put(what.name);
        out.put(given.positional);
        out.put(given.named);
      }));
  return future<op_result>(std::move(state));
}

}  // namespace

future<op_result> call_operator(node_core& node, const destination& to, op_request&& what,
                                const call_options& how) {
  check_name(what.name, node.find(to).info.name);
  std::vector<std::shared_ptr<future_core>> awaited;
  for (const auto& x : what.positional)
    if (x.awaited()) awaited.push_back(x.awaited());
  for (const auto& [name, x] : what.named)
    if (x.awaited()) awaited.push_back(x.awaited());
  if (awaited.empty()) return call_now(node, to, what, how);

  const auto driver = node.actors().driver();
  auto out = std::make_shared<relayed_state<op_result>>(
      driver, cancelled_call(node.find(to).info.name, what.name));
  auto call = [awaited, out, to, how, what = std::move(what), weak = node.weak_from_this()] {
    if (out->ready()) return;  // cancelled
    try {
      if (const auto why = first_failure(awaited)) std::rethrow_exception(why);
      const auto core = weak.lock();
      if (!core) throw not_initialized("the node has been shut down");
      out->take_from(call_now(*core, to, what, how).shared());
    } catch (...) {
      out->set_exception(std::current_exception());
    }
  };
  when_all_ready(awaited, [driver, call = std::move(call)] { run_on_thread_of(*driver, call); });
  return future<op_result>(out);
}

op_arguments values_for_creation(node_core& node, const destination& to, const op_request& what) {
  check_name(what.name, node.find(to).info.name);
  return values_of(what);
}

op_result run_operator(std::string name, std::vector<op_value> positional,
                       std::vector<std::pair<std::string, op_value>> named) {
  try {
    auto call =
        choose_overload(parse_operator_name(name), {std::move(positional), std::move(named)});
    static const operator_permission nobody_asked;
    const auto* node = current_node();
    const auto& permission = node ? node->operators() : nobody_asked;
    if (auto why = permission.refusal(call.op.schema()); !why.empty())
      throw invalid_argument(std::move(why));
    call.op.callBoxed(call.stack);
    const auto& returns = call.op.schema().returns();
    std::vector<op_value> values;
    for (std::size_t i = 0; i < returns.size(); ++i)
      values.push_back(from_ivalue(call.stack.at(i), *returns[i].real_type()));
    return op_result(std::move(values));
  } catch (const c10::Error& e) {
    auto why = describe(std::current_exception(), {}, {});
    why.text = e.what_without_backtrace();
    rethrow(std::move(why), name);
  } catch (...) {
    rethrow(describe(std::current_exception(), {}, {}), name);
  }
}

}  // namespace troupe::detail
