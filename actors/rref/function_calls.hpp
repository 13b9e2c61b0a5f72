#pragma once

#include "troupe/actors/rpc/retry.hpp"
#include "troupe/actors/rref/defaults.hpp"
#include "troupe/actors/rref/named_function.hpp"
#include "troupe/actors/rref/rref_use.hpp"

// Calls of functions whose results come back, with arguments that may be rrefs and futures: what
// `node` and `rref` share. The functions that begin a call return its future. If the call is wrong,
// they fail to compile, with an error of call_checks.hpp.
namespace troupe::detail {

/// Sends one call. `name`: static text.
template <class Answer, class Wire, class... Args>
future<Answer> send_call(rpc_agent& agent, peer& callee, std::uint64_t hash, std::string_view name,
                         Args&&... args) {
  const auto how = options_in(args...);
  auto state = std::make_shared<call_state<Answer>>(agent, callee, name, how);
  state->sent_as(
      agent.call(callee, hash, name, state, how, [&](encoder& out, handle_scope& handles) {
        write_arguments<Wire>(out, handles, std::forward<Args>(args)...);
      }));
  return future<Answer>(std::move(state));
}

/// Calls `make` with the agent and the arguments when those that are futures have their values: it
/// begins the call.
template <class Answer, class Parameters, class Make, class... Args>
future<Answer> call_with_values(rpc_agent& agent, const peer& callee, std::string_view name,
                                Make make, const Args&... args) {
  auto out =
      std::make_shared<relayed_state<Answer>>(agent.driver(), cancelled_call_to(callee, name));
  when_given<Parameters>(
      agent,
      [out, make = std::move(make)](rpc_agent& here, const auto&... xs) {
        if (out->ready()) return;  // cancelled
        out->take_from(make(here, xs...).shared());
      },
      [out](std::exception_ptr why) { out->set_exception(std::move(why)); }, args...);
  return future<Answer>(std::move(out));
}

template <auto F, class... Args>
auto call_once(rpc_agent& agent, peer& callee, Args&&... args) {
  using target = target_for<F, void, std::remove_cvref_t<Args>...>;
  using parameters = typename target::template parameters<void>;
  using wire = wire_for<parameters, std::remove_cvref_t<Args>...>;
  using call = std::conditional_t<std::is_same_v<wire, typename callable<F>::arguments>,
                                  callable<F>, invocation<target, void, false, wire>>;
  (void)call::registered;
  return send_call<typename callable<F>::answer, wire>(agent, callee, call::hash(), call::name,
                                                       std::forward<Args>(args)...);
}

/// A call with a `retry` among its options.
template <auto F, class... Args>
auto call_again(rpc_agent& agent, const destination& to, const Args&... args) {
  using answer = typename callable<F>::answer;
  using parameters = typename target_for<F, void, Args...>::template parameters<void>;
  auto why = cancelled_call_to(agent.find(to), callable<F>::name);
  auto given = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::make_tuple(keep_argument<parameters, I>(args)...);
  }
  (std::index_sequence_for<Args...>());
  auto out = std::make_shared<retried_state<answer>>(
      agent.driver(), std::move(why),
      std::make_unique<retry_plan>(retry_in(args...), agent, to, callable<F>::name),
      [to, given = std::move(given)](const std::shared_ptr<rpc_agent>& here) {
        here->check_open();
        auto& callee = here->find(to);
        return std::apply(
            [&](const auto&... xs) { return call_once<F>(*here, callee, xs...).shared(); }, given);
      });
  out->go();
  return future<answer>(std::move(out));
}

/// A call of F on `to`. Throws unknown_worker, not_initialized.
template <auto F, class... Args>
auto begin_call(rpc_agent& agent, const destination& to, Args&&... args) {
  using target = target_for<F, void, std::remove_cvref_t<Args>...>;
  using check = call_check<target, void, std::remove_cvref_t<Args>...>;
  if constexpr (asks_for_retry<std::remove_cvref_t<Args>...>)
    static_assert(is_idempotent<F>,
                  "retry may run a function twice: say that this one is made for it, with "
                  "TROUPE_IDEMPOTENT(&f) outside of all namespaces and before the call");
  using parameters = typename target::template parameters<void>;
  using answer = typename callable<F>::answer;
  agent.check_open();
  auto& callee = agent.find(to);
  if constexpr (target::is_member || !check::ok)
    return future<answer>();  // does not compile: said above
  else if constexpr ((is_future<std::remove_cvref_t<Args>> || ...))
    return call_with_values<answer, parameters>(
        agent, callee, target::name,
        [to](rpc_agent& here, const auto&... xs) { return begin_call<F>(here, to, xs...); },
        args...);
  else if constexpr (asks_for_retry<std::remove_cvref_t<Args>...>)
    return call_again<F>(agent, to, args...);
  else
    return call_once<F>(agent, callee, std::forward<Args>(args)...);
}

/// A call of the function that the program of `to` has registered as `name`. Throws like
/// `begin_call`.
template <class Signature, class... Args>
auto begin_named_call(rpc_agent& agent, const destination& to, std::string_view name,
                      Args&&... args) {
  using named = named_function<Signature>;
  using parameters = typename named::parameters;
  using answer = typename named::answer;
  agent.check_open();
  auto& callee = agent.find(to);
  if constexpr (!named_arguments_check<parameters, std::remove_cvref_t<Args>...>::ok) {
    return future<answer>();  // does not compile: said above
  } else if constexpr ((is_future<std::remove_cvref_t<Args>> || ...)) {
    return call_with_values<answer, parameters>(
        agent, callee, name,
        [to, name](rpc_agent& here, const auto&... xs) {
          return begin_named_call<Signature>(here, to, name, xs...);
        },
        args...);
  } else {
    using wire = typename named::template wire<std::remove_cvref_t<Args>...>;
    return send_call<answer, wire>(agent, callee, named::template hash<wire>(name), name,
                                   std::forward<Args>(args)...);
  }
}

/// A call of F on the value of `core`, a T. The use is kept until the answer.
template <auto F, class T, class... Args>
auto begin_call_on(const std::shared_ptr<rref_use>& core, Args&&... args) {
  using target = target_for<F, T, std::remove_cvref_t<Args>...>;
  using parameters = typename target::template parameters<T>;
  using answer = typename answer_of<std::remove_cvref_t<typename target::result>>::type;
  const auto agent = core->agent();
  core->check();
  auto& owner = core->owner();
  if constexpr (!call_check<target, T, std::remove_cvref_t<Args>...>::ok) {
    return future<answer>();  // does not compile: said above
  } else if constexpr ((is_future<std::remove_cvref_t<Args>> || ...)) {
    return call_with_values<answer, parameters>(
        *agent, owner, target::name,
        [core](rpc_agent&, const auto&... xs) { return begin_call_on<F, T>(core, xs...); },
        args...);
  } else {
    using wire = wire_for<parameters, std::remove_cvref_t<Args>...>;
    using call = invocation<target, T, false, wire>;
    (void)call::registered;
    const auto how = options_in(args...);
    core->publish();
    auto state = std::make_shared<call_state<answer>>(*agent, owner, call::name, how, core);
    state->sent_as(agent->call(owner, call::hash(), call::name, state, how,
                               [&](encoder& out, handle_scope& handles) {
                                 out.put(core->id());
                                 write_arguments<wire>(out, handles, std::forward<Args>(args)...);
                               }));
    if (core->creates()) core->add_waiting(state);
    return future<answer>(std::move(state));
  }
}

}  // namespace troupe::detail
