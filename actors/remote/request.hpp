#pragma once

#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/message_id.hpp>
#include <caf/response_type.hpp>

#include "troupe/actors/future/wait_all.hpp"
#include "troupe/actors/messaging/call_options.hpp"
#include "troupe/actors/remote/answer_cell.hpp"
#include "troupe/actors/remote/answer_state.hpp"
#include "troupe/messages/codec/message_codec.hpp"

namespace troupe {

class process_group;  // has a `send` of its own: groups/point_to_point.hpp

class actor_proxy;

namespace detail {

/// The error that an actor of `system` has answered to `message`. If the actor has ended, the error
/// names the message, and the node if that lives.
fault fault_in(const caf::error& answer, caf::actor_system* system, std::string_view message);

/// Puts an actor's answer into its future.
template <class T>
void take_answer(future_state<T>& out, caf::message& answer, caf::actor_system* system = nullptr,
                 std::string_view message = {}) {
  if (answer.match_elements<caf::error>())
    out.set_exception(to_exception(fault_in(answer.get_as<caf::error>(0), system, message)));
  else if constexpr (std::is_void_v<T>)
    out.set_value();
  else if (answer.match_elements<T>())
    out.set_value(std::move(answer.get_mutable_as<T>(0)));
  else
    out.set_exception(std::make_exception_ptr(
        remote_error("the actor's answer is not a " + std::string(type_name<T>()))));
}

/// `take_answer` for a future of a T.
template <class T>
inline constexpr answer_taker taker_of = [](future_core& out, caf::message& answer,
                                            caf::actor_system* system, std::string_view message) {
  take_answer(static_cast<future_state<T>&>(out), answer, system, message);
};

/// The future of what an actor of another node answers.
template <class T>
class remote_answer final : public remote_answer_state<T> {
public:
  using remote_answer_state<T>::remote_answer_state;

  void on_value(opened_envelope& answer) noexcept override {
    this->take_apart(answer, [this](decoder& in, handle_scope&) {
      if constexpr (!std::is_void_v<T>) {
        T value{};
        if (get_as_message(in, value)) {
          in.expect_end();
          this->set_value(std::move(value));
          return;
        }
      }
      auto content = in.get<caf::message>();
      in.expect_end();
      take_answer(*this, content);
    });
  }
};

template <class List>
struct only_answer;
template <>
struct only_answer<void> {  // what was asked is not known
  using type = void;
};
template <>
struct only_answer<caf::detail::type_list<>> {
  using type = void;
};
template <>
struct only_answer<caf::detail::type_list<void>> {
  using type = void;
};
template <class T>
struct only_answer<caf::detail::type_list<T>> {
  using type = T;
};

template <class T>
concept is_handle = requires {
  typename T::signatures;
};

/// What an actor of this interface answers to such a message, as a list. Does not compile when the
/// interface does not name the message.
template <class Handle, class... Ts>
struct answers_of {
  using response =
      caf::response_type<typename Handle::signatures,
                         typename caf::detail::implicit_conversions<std::decay_t<Ts>>::type...>;
  static constexpr bool known = requires { typename response::type; };
  static_assert(known,
                "this actor does not know such a message: its interface, actor<answers<...>, "
                "accepts<...>>, does not name the type");
  using type = typename std::conditional_t<known, response, std::type_identity<void>>::type;
};
template <class Handle, class... Ts>
using answers_to = typename answers_of<Handle, Ts...>::type;

/// The same as a type.
template <class Handle, class... Ts>
using answer_to = typename only_answer<answers_to<Handle, Ts...>>::type;

inline caf::message_id with_priority(caf::message_id id, const call_options& how) {
  return how.urgent ? id.with_high_priority() : id.with_normal_priority();
}

/// The actor as one of another node that is not known to have ended; else nullptr.
actor_proxy* alive_elsewhere(const caf::strong_actor_ptr& receiver);

/// Does one of them never leave its node?
template <class... Ts>
inline constexpr bool stays_here = (local_message<std::decay_t<Ts>> || ...);

[[noreturn]] void throw_stays_here(const actor_proxy& receiver, std::string_view message);
/// What stands for a message in errors: its first element's type.
template <class... Ts>
inline constexpr std::string_view message_name =
    type_name<std::tuple_element_t<0, std::tuple<std::decay_t<Ts>...>>>();

/// The node that `one` is on, and that of its actor.
remote_actors& actors_at(const actor_proxy& one) noexcept;
peer& home_of(const actor_proxy& one) noexcept;

/// Sends a request to an actor of another node; `name` is static text. Its id; 0: it has failed.
/// Hot path.
std::uint64_t send_request(const actor_proxy& target, std::string_view name,
                           const call_options& how, std::shared_ptr<reply_sink> sink,
                           function_ref<void(encoder&)> write) noexcept;

/// Sends an actor of another node a message. Throws like remote_actors::send_message.
void send_message(const actor_proxy& target, std::string_view name, const call_options& how,
                  function_ref<void(encoder&)> write);

/// The node of an actor that is here. Throws not_initialized after its shutdown.
std::shared_ptr<remote_actors> actors_of(const caf::strong_actor_ptr& receiver);

/// A request to an actor of this node, before there is the future of its answer.
struct local_question {
  caf::strong_actor_ptr target;
  std::shared_ptr<remote_actors> actors;
  std::shared_ptr<engine> driver;
};
/// Throws not_initialized after the shutdown of the actor's node.
local_question ask_here(caf::strong_actor_ptr target);

/// Sends it. `limited`: the same future as the sink of a request that has a limit; else null.
/// `name` is static text. Throws not_initialized if the node has ended since.
void send_here(local_question&& question, std::shared_ptr<future_core> state,
               std::shared_ptr<reply_sink> limited, answer_taker take, std::string_view name,
               const call_options& how, caf::message&& content);

template <class Handle, class... Ts>
auto ask(const Handle& receiver, const call_options& how, Ts&&... message) {
  using answer = answer_to<Handle, Ts...>;
  constexpr auto name = message_name<Ts...>;
  (void)interface_registration<Handle>::done;
  if (!receiver) throw invalid_argument("a request to an actor handle that names no actor");
  auto target = caf::actor_cast<caf::strong_actor_ptr>(receiver);
  auto* const elsewhere = alive_elsewhere(target);
  if constexpr (stays_here<answer, Ts...>) {
    if (elsewhere) throw_stays_here(*elsewhere, name);
  } else if (elsewhere) {
    auto state =
        std::make_shared<remote_answer<answer>>(actors_at(*elsewhere), home_of(*elsewhere), name);
    const auto id = target->id();
    state->sent_as(
        send_request(*elsewhere, name, how, state,
                     [&](encoder& out) { put_as_message(out, std::forward<Ts>(message)...); }),
        id);
    return future<answer>(std::move(state));
  }
  auto question = ask_here(std::move(target));
  std::shared_ptr<future_state<answer>> state;
  std::shared_ptr<reply_sink> limited;
  if (how.limit.count() > 0) {
    auto one = std::make_shared<answer_state<answer>>(question.driver);
    limited = one;
    state = std::move(one);
  } else {
    state = std::make_shared<future_state<answer>>(question.driver);
  }
  send_here(std::move(question), state, std::move(limited), taker_of<answer>, name, how,
            message_of(std::forward<Ts>(message)...));
  return future<answer>(std::move(state));
}

template <class Handle, class... Ts>
void send_to(const Handle& receiver, const call_options& how, Ts&&... message) {
  // Does not compile when the actor does not know it.
  using known [[maybe_unused]] = answers_to<Handle, Ts...>;
  (void)interface_registration<Handle>::done;
  if (!receiver) throw invalid_argument("a message to an actor handle that names no actor");
  auto target = caf::actor_cast<caf::strong_actor_ptr>(receiver);
  auto* elsewhere = alive_elsewhere(target);
  if constexpr (stays_here<Ts...>) {
    if (elsewhere) throw_stays_here(*elsewhere, message_name<Ts...>);
  } else if (elsewhere) {
    return send_message(*elsewhere, message_name<Ts...>, how,
                        [&](encoder& out) { put_as_message(out, std::forward<Ts>(message)...); });
  }
  target->enqueue(caf::make_mailbox_element(nullptr, with_priority(caf::message_id(), how), {},
                                            message_of(std::forward<Ts>(message)...)),
                  nullptr);
}

}  // namespace detail

/// Asks an actor, wherever it is, from any thread. A `timeout` may follow the message, a `priority`
/// and `no_wait`: rpc_timeout then names the actor's node, the message and the limit. Without one
/// the future waits for the answer, the actor's end or the loss of its node; a promise that a
/// handler has made and kept answers when it is kept or dropped, whether the actor still lives or
/// not. Belongs to the autograd context of the thread, as calls do: the handler works in it.
template <class Handle, class... Ts>
auto request(const Handle& receiver, Ts&&... message) {
  static_assert(detail::is_handle<Handle>, "request takes an actor handle, as returned by spawn");
  static_assert(!detail::asks_for_retry<Ts...>, "retry applies only to calls of functions");
  const auto how = detail::options_in(message...);
  auto all = std::forward_as_tuple(std::forward<Ts>(message)...);
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return detail::awaited_later(
        detail::ask(receiver, how,
                    std::forward<std::tuple_element_t<I, std::tuple<Ts...>>>(std::get<I>(all))...),
        how.sync);
  }
  (std::make_index_sequence<sizeof...(Ts) - detail::option_count<Ts...>>());
}

/// Sends to an actor, wherever it is, from any thread. Delivery is not reported, and an answer is
/// dropped. Waits for room in the window of the actor's node when that is full; with `no_wait`
/// behind the message it throws overloaded_error instead. A `priority` may follow as well. Belongs
/// to no autograd context; see rpc_options::on_lost_gradient. Throws invalid_argument for a handle
/// that names no actor.
template <class Handle, class... Ts>
requires(!std::is_same_v<Handle, process_group>) auto send(const Handle& receiver,
                                                           Ts&&... message) {
  static_assert(detail::is_handle<Handle>, "send takes an actor handle, as returned by spawn");
  static_assert(!detail::asks_for_retry<Ts...>, "retry applies only to calls of functions");
  auto all = std::forward_as_tuple(std::forward<Ts>(message)...);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    detail::send_to(receiver, detail::options_in(message...),
                    std::forward<std::tuple_element_t<I, std::tuple<Ts...>>>(std::get<I>(all))...);
  }
  (std::make_index_sequence<sizeof...(Ts) - detail::option_count<Ts...>>());
}

/// Asks all of them the same, with a `timeout` if one follows, and gathers the answers, in order.
template <class Handle, class... Ts>
requires caf::is_typed_actor<Handle>::value auto when_all(const std::vector<Handle>& receivers,
                                                          const Ts&... message) {
  std::vector<decltype(request(receivers.front(), message...))> all;
  all.reserve(receivers.size());
  for (const auto& receiver : receivers) all.push_back(request(receiver, message...));
  return when_all(all);
}

}  // namespace troupe
