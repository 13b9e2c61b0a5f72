#include "troupe/actors/rpc/calls.hpp"

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/scheduler/engine.hpp"

namespace troupe::detail {

namespace {

void expire(future_core& state, const question_to_peer& asked, std::chrono::milliseconds limit) {
  if (state.ready()) return;
  fault why;
  why.limit = limit;
  why.text = "the owner of an rref in the answer has not confirmed it within the limit";
  if (asked.name_callee(state, why)) why.function = asked.name_asked();
  state.set_exception(std::make_exception_ptr(rpc_timeout(std::move(why))));
}

}  // namespace

fault cancelled_call(std::string node, std::string_view function) {
  fault why;
  why.code = errc::cancelled;
  why.text = "the caller has cancelled the call";
  why.node = std::move(node);
  why.function = function;
  return why;
}

fault cancelled_call_to(const peer& callee, std::string_view function) {
  return cancelled_call(callee.info.name, function);
}

void await_claims(rpc_agent& agent, const std::shared_ptr<future_core>& state,
                  const question_to_peer& asked, std::chrono::milliseconds limit,
                  handle_scope::claims&& claims, std::function<void()> set) {
  std::optional<future<void>> late;
  const auto end = limit.count() > 0 ? deadline_after(limit) : never;
  if (end != never) {
    late = agent.wake_at(end);
    late->state().when_ready(make_continuation(
        [weak = std::weak_ptr(state), &asked, limit] {  // `asked` is a part of the state
          if (const auto self = weak.lock()) expire(*self, asked, limit);
        }));
  }
  after(std::move(claims),
        [&agent, state, late, end, set = std::move(set)](const std::exception_ptr& failure) {
          if (late) state->driver()->run_if_open([&] { agent.forget(*late, end); });
          if (failure)
            state->set_exception(failure);
          else
            set();
        });
}

}  // namespace troupe::detail
