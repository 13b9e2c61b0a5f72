#pragma once

#include "troupe/actors/rref/invocation.hpp"
#include "troupe/actors/rref/named_function.hpp"

// Calls whose result stays on the callee, as the value of an rref; and values of this node.
namespace troupe::detail {

/// The construction of a T from such arguments, as the target of a call.
template <class T, class... Args>
struct constructor_target {
  using result = T;
  static constexpr bool constructs = true;
  static constexpr std::string_view name = type_name<T>();
  static std::uint64_t hash() { return type_hash<constructor_target>(); }
  template <class Object>
  using parameters = std::tuple<Args...>;
};

/// Asks the owner of `core` to create its value by the function of that hash and name. `core` gets
/// the outcome.
template <class Wire, class... Args>
void send_creation(rpc_agent& agent, const std::shared_ptr<rref_use>& core, std::uint64_t hash,
                   std::string_view name, Args&&... args) {
  try {
    agent.call(core->owner(), hash, name, core, options_in(args...),
               [&](encoder& out, handle_scope& handles) {
                 out.put(core->id().number);
                 if (core->object()) out.put(core->object()->id());
                 write_arguments<Wire>(out, handles, std::forward<Args>(args)...);
               });
  } catch (...) {  // thrown by a type of the program as it was written
    core->on_fault(describe(std::current_exception(), {}, std::string(name)));
    throw;
  }
}

/// The same by `Target`, on `Object`, once the values of futures are there.
template <class Target, class Object, class... Args>
void send_creation_by(rpc_agent& agent, const std::shared_ptr<rref_use>& core, Args&&... args) {
  using parameters = typename Target::template parameters<Object>;
  if constexpr ((is_future<std::remove_cvref_t<Args>> || ...)) {
    when_given<parameters>(
        agent,
        [core](rpc_agent& here, const auto&... xs) {
          send_creation_by<Target, Object>(here, core, xs...);
        },
        [core](std::exception_ptr why) {
          core->on_fault(describe(std::move(why), {}, std::string(Target::name)));
        },
        args...);
  } else {
    using wire = wire_for<parameters, std::remove_cvref_t<Args>...>;
    using call = invocation<Target, Object, true, wire>;
    (void)call::registered;
    send_creation<wire>(agent, core, call::hash(), call::name, std::forward<Args>(args)...);
  }
}

/// A reference to the value that `Target` will create on `owner`, called on the value of `object`
/// unless that is null. Errors are thrown where the reference is used.
template <class Target, class Object, class... Args>
std::shared_ptr<rref_use> create(rpc_agent& agent, peer& owner, const std::source_location& site,
                                 std::shared_ptr<rref_use> object, Args&&... args) {
  check_no_retry<std::remove_cvref_t<Args>...>();
  using answer = typename answer_of<std::remove_cvref_t<typename Target::result>>::type;
  auto core = agent.rrefs().expect(owner, value_type::of<answer>(), site);
  core->keep_object(std::move(object));
  send_creation_by<Target, Object>(agent, core, std::forward<Args>(args)...);
  return core;
}

/// Like `send_creation_by`, by a function that the owner's program has registered as `name`.
template <class Signature, class... Args>
void send_creation_by_name(rpc_agent& agent, const std::shared_ptr<rref_use>& core,
                           std::string_view name, Args&&... args) {
  using named = named_function<Signature>;
  if constexpr ((is_future<std::remove_cvref_t<Args>> || ...)) {
    when_given<typename named::parameters>(
        agent,
        [core, name](rpc_agent& here, const auto&... xs) {
          send_creation_by_name<Signature>(here, core, name, xs...);
        },
        [core, name](std::exception_ptr why) {
          core->on_fault(describe(std::move(why), {}, std::string(name)));
        },
        args...);
  } else {
    using wire = typename named::template wire<std::remove_cvref_t<Args>...>;
    send_creation<wire>(agent, core, named::template creating_hash<wire>(name), name,
                        std::forward<Args>(args)...);
  }
}

/// A reference to the value that the function `name` of the owner's program will create there.
template <class Signature, class... Args>
std::shared_ptr<rref_use> create_by_name(rpc_agent& agent, peer& owner,
                                         const std::source_location& site, std::string_view name,
                                         Args&&... args) {
  check_no_retry<std::remove_cvref_t<Args>...>();
  using answer = typename named_function<Signature>::answer;
  auto core = agent.rrefs().expect(owner, value_type::of<answer>(), site);
  send_creation_by_name<Signature>(agent, core, name, std::forward<Args>(args)...);
  return core;
}

/// A reference to a T that is made here, of `args`. Throws what its constructor throws.
template <class T, class... Args>
std::shared_ptr<rref_use> own_value(rpc_agent& agent, const std::source_location& site,
                                    Args&&... args) {
  auto state = std::make_shared<value_state<T>>(agent.driver());
  state->set_value(std::forward<Args>(args)...);
  if (state->failure()) std::rethrow_exception(state->failure());
  return agent.rrefs().own(state, value_type::of<T>(), site);
}

}  // namespace troupe::detail
