#include "troupe/actors/operators/operator_call.hpp"

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/operators/overloads_internal.hpp"
#include "troupe/actors/operators/value_internal.hpp"
#include "troupe/actors/rpc/calls.hpp"
#include "troupe/actors/rref/rref_table.hpp"

namespace troupe::detail {

namespace {

// All nodes have the same libtorch, so names in aten are checked here; operators of other libraries
// may be known to the callee only.
void check_name(const std::string& name, const std::string& callee) {
  try {
    const auto parsed = parse_operator_name(name);
    if (parsed.getNamespace() == "aten") find_operators(parsed);
  } catch (const error& e) {
    auto why = e.fault();
    why.node = callee;
    if (why.function.empty()) why.function = name.substr(0, longest_shown_name);
    std::rethrow_exception(to_exception(std::move(why)));
  }
}

void write_request(encoder& out, handle_scope& handles, const op_request& what) {
  op_arguments given;
  std::vector<op_loan> loans;
  std::uint32_t place = 0;
  const auto value_of = [&](const op_argument& x) {
    const auto known = x.known();
    if (const auto& lends = known.lends())
      loans.push_back({place, lends->type, handles.lend(lends->from)});
    ++place;
    return known.value();
  };
  for (const auto& x : what.positional) given.positional.push_back(value_of(x));
  for (const auto& [name, x] : what.named) given.named.emplace_back(name, value_of(x));
  out.put(what.name);
  out.put(given.positional);
  out.put(given.named);
  out.put(loans);
}

std::vector<std::shared_ptr<future_core>> awaited_in(const op_request& what) {
  std::vector<std::shared_ptr<future_core>> awaited;
  for (const auto& x : what.positional)
    if (x.awaited()) awaited.push_back(x.awaited());
  for (const auto& [name, x] : what.named)
    if (x.awaited()) awaited.push_back(x.awaited());
  return awaited;
}

// Calls `make` on a thread of the node when all of `awaited` are ready; `fail` with their first
// error, or with what `make` throws.
template <class Make, class Fail>
void when_known(rpc_agent& agent, std::vector<std::shared_ptr<future_core>> awaited, Make make,
                Fail fail) {
  const auto& driver = agent.driver();
  auto call = [awaited, weak = agent.weak_from_this(), make = std::move(make),
               fail = std::move(fail), by_program = !in_handler()] {
    try {
      if (const auto why = first_failure(awaited)) std::rethrow_exception(why);
      const auto here = weak.lock();
      if (!here) throw not_initialized("the node has been shut down");
      const put_off_call now(by_program);
      make(*here);
    } catch (...) {
      fail(std::current_exception());
    }
  };
  when_all_ready(awaited, [driver, call = std::move(call)] { run_on_thread_of(*driver, call); });
}

future<op_result> call_now(rpc_agent& agent, const destination& to, const op_request& what,
                           const call_options& how) {
  auto& callee = agent.find(to);
  const auto name = std::make_shared<const std::string>(what.name);
  auto state = std::make_shared<call_state<op_result>>(agent, callee, name, how);
  state->sent_as(
      agent.call(callee, operator_answer::hash(), *name, state, how,
                 [&](encoder& out, handle_scope& handles) { write_request(out, handles, what); }));
  return future<op_result>(std::move(state));
}

void create_now(rpc_agent& agent, const std::shared_ptr<rref_use>& made, const op_request& what,
                const call_options& how, std::uint64_t kind) {
  try {
    agent.call(made->owner(), kind, made->maker(), made, how,
               [&](encoder& out, handle_scope& handles) {
                 out.put(made->id().number);
                 write_request(out, handles, what);
               });
  } catch (...) {  // out of memory
    made->on_fault(describe(std::current_exception(), {}, made->maker()));
    throw;
  }
}

}  // namespace

future<op_result> call_operator(rpc_agent& agent, const destination& to, op_request&& what,
                                const call_options& how) {
  check_name(what.name, agent.find(to).info.name);
  auto awaited = awaited_in(what);
  if (awaited.empty()) return call_now(agent, to, what, how);
  auto out = std::make_shared<relayed_state<op_result>>(
      agent.driver(), cancelled_call(agent.find(to).info.name, what.name));
  when_known(
      agent, std::move(awaited),
      [out, to, how, what = std::move(what)](rpc_agent& here) {
        if (out->ready()) return;  // cancelled
        out->take_from(call_now(here, to, what, how).shared());
      },
      [out](std::exception_ptr why) { out->set_exception(std::move(why)); });
  return future<op_result>(out);
}

std::shared_ptr<rref_use> create_by_operator(rpc_agent& agent, const destination& to,
                                             op_request&& what, const call_options& how,
                                             std::uint64_t kind, const value_type& type) {
  auto& owner = agent.find(to);
  check_name(what.name, owner.info.name);
  auto awaited = awaited_in(what);
  auto made = agent.rrefs().expect(owner, type, to.site());
  made->made_by(what.name);
  if (awaited.empty()) {
    create_now(agent, made, what, how, kind);
    return made;
  }
  when_known(
      agent, std::move(awaited),
      [made, how, kind, what = std::move(what)](rpc_agent& here) {
        create_now(here, made, what, how, kind);
      },
      [made](std::exception_ptr why) {
        made->on_fault(describe(std::move(why), {}, made->maker()));
      });
  return made;
}

}  // namespace troupe::detail
