#pragma once

#include "troupe/actors/rpc/calls.hpp"
#include "troupe/actors/rref/rref_table.hpp"

namespace troupe::detail {

/// The call that asks for a copy of the value of an rref.
template <class T>
struct fetch {
  static constexpr std::string_view name = "rref::to_here";
  using structure = detail::structure<T>;
  static std::uint64_t hash() { return kept_identity<fetch>(); }
  static std::uint64_t name_hash() { return type_hash<fetch>(); }
  static const bool registered;

  static void invoke(decoder& in, handle_scope& handles, reply_token&& reply) {
    const auto id = in.get<rref_id>();
    in.expect_end();
    auto state =
        std::static_pointer_cast<future_state<T>>(table_of(handles).find(id, value_type::of<T>()));
    if (state->ready()) return answer(*state, reply);
    auto kept = std::make_shared<reply_token>(std::move(reply));
    state->when_ready(make_continuation([state, kept] { answer(*state, *kept); }));
  }

  static void skip(decoder& in) { in.get<rref_id>(); }

  static void answer(future_state<T>& state, reply_token& reply) noexcept {
    if (state.failure())
      reply.fail(state.failure());
    else if constexpr (std::is_void_v<T>)
      reply.done();
    else
      reply.value([&](encoder& out) { out.put(*state.value()); });
  }
};

template <class T>
const bool fetch<T>::registered = add_function(function_entry_of<fetch<T>>());

/// The call that waits for the creation of the value of an rref: answered when it has been created,
/// or never will be.
template <class T>
struct await_value {
  static constexpr std::string_view name = "rref::created";
  using structure = detail::structure<void>;
  static std::uint64_t hash() { return kept_identity<await_value>(); }
  static std::uint64_t name_hash() { return type_hash<await_value>(); }
  static const bool registered;

  static void invoke(decoder& in, handle_scope& handles, reply_token&& reply) {
    const auto id = in.get<rref_id>();
    in.expect_end();
    const auto state = table_of(handles).find(id, value_type::of<T>());
    if (state->ready()) return answer(*state, reply);
    auto kept = std::make_shared<reply_token>(std::move(reply));
    state->when_ready(make_continuation([state, kept] { answer(*state, *kept); }));
  }

  static void skip(decoder& in) { in.get<rref_id>(); }

  static void answer(const future_core& state, reply_token& reply) noexcept {
    if (state.failure())
      reply.fail(state.failure());
    else
      reply.done();
  }
};

template <class T>
const bool await_value<T>::registered = add_function(function_entry_of<await_value<T>>());

/// Asks `owner` for a copy of the value of `id`. `kept` lives until the answer.
template <class T>
std::shared_ptr<future_state<T>> fetch_value(rpc_agent& agent, peer& owner, const rref_id& id,
                                             const call_options& how,
                                             std::shared_ptr<rref_use> kept) {
  using call = fetch<T>;
  (void)call::registered;
  auto state = std::make_shared<call_state<T>>(agent, owner, call::name, how, std::move(kept));
  state->sent_as(agent.call(owner, call::hash(), call::name, state, how,
                            [&](encoder& out, handle_scope&) { out.put(id); }));
  return state;
}

/// Asks `owner` whether the value of `id` has been created; without a limit. `kept` lives until the
/// answer.
template <class T>
future<void> await_creation(rpc_agent& agent, peer& owner, const rref_id& id,
                            std::shared_ptr<rref_use> kept) {
  using call = await_value<T>;
  (void)call::registered;
  call_options how;
  how.limit = std::chrono::milliseconds(0);  // the creation has one
  auto state = std::make_shared<call_state<void>>(agent, owner, call::name, how, std::move(kept));
  state->sent_as(agent.call(owner, call::hash(), call::name, state, how,
                            [&](encoder& out, handle_scope&) { out.put(id); }));
  return future<void>(std::move(state));
}

/// The state of a lent value, on the callee, which is a holder meanwhile if it `holds`. Without a
/// limit: the caller has one for the whole call. Throws rref_gone.
template <class T>
std::shared_ptr<future_state<T>> borrow(rref_table& table, const loan<T>& of, bool holds) {
  const auto type = value_type::of<T>();
  if (table.owns(of.id)) return std::static_pointer_cast<future_state<T>>(table.find(of.id, type));
  auto& owner = table.owner_of(of.id);
  call_options how;
  how.limit = std::chrono::milliseconds(0);
  return fetch_value<T>(*table.agent(), owner, of.id, how,
                        holds ? table.hold(owner, of.id, type) : nullptr);
}

/// What a call waits for before it begins: cancelled together.
class awaited_values final : public future_core {
public:
  awaited_values(std::shared_ptr<engine> driver, std::vector<std::shared_ptr<future_core>> all)
      : future_core(std::move(driver)), all_(std::move(all)) {}
  void cancel() override {
    for (const auto& one : all_) one->cancel();
  }

private:
  const std::vector<std::shared_ptr<future_core>> all_;
};

}  // namespace troupe::detail
