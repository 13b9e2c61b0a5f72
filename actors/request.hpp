#pragma once

#include <caf/actor_config.hpp>
#include <caf/make_actor.hpp>
#include <caf/monitorable_actor.hpp>
#include <caf/response_type.hpp>

#include "actors/future.hpp"
#include "actors/node_core.hpp"
#include "actors/remote_actor.hpp"

namespace troupe {

namespace detail {

/// Puts an actor's answer into its future.
template <class T>
void take_answer(future_state<T>& out, caf::message& answer) {
  if (answer.match_elements<caf::error>())
    out.set_exception(to_exception(to_fault(answer.get_as<caf::error>(0))));
  else if constexpr (std::is_void_v<T>)
    out.set_value();
  else if (answer.match_elements<T>())
    out.set_value(std::move(answer.get_mutable_as<T>(0)));
  else
    out.set_exception(std::make_exception_ptr(
        remote_error("the actor's answer is not a " + std::string(type_name<T>()))));
}

/// The future of an answer that comes from another node.
template <class T>
class remote_answer final : public future_state<T>, public reply_sink {
public:
  remote_answer(remoting& actors, transport::rank_t peer)
      : future_state<T>(actors.driver()), actors_(actors), peer_(peer) {}

  void on_value(opened_envelope& answer) noexcept override {
    try {
      border handles(actors_, peer_);
      decoder in(answer.body(), answer.tensors(), &handles);
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
    } catch (...) {
      this->set_exception(std::current_exception());
    }
  }

  void on_fault(fault&& why) noexcept override {
    this->set_exception(to_exception(std::move(why)));
  }

private:
  // Not owned: answers come on the node's own threads, which must never be the last to hold it.
  remoting& actors_;
  transport::rank_t peer_;
};

/// Takes the answer of an actor of this node on behalf of a future. Dropped without one, the future
/// fails.
template <class T>
class answer_cell final : public caf::monitorable_actor {
public:
  answer_cell(caf::actor_config& config, std::shared_ptr<future_state<T>> state)
      : caf::monitorable_actor(config), state_(std::move(state)) {}

  ~answer_cell() override {
    if (!state_->ready())
      state_->set_exception(
          std::make_exception_ptr(remote_error("the actor dropped the request without an answer")));
  }

  void enqueue(caf::mailbox_element_ptr letter, caf::execution_unit*) override {
    auto answer = letter->move_content_to_message();
    take_answer(*state_, answer);
  }

  void on_cleanup(const caf::error&) override {}
  const char* name() const override { return "troupe.answer_cell"; }

private:
  std::shared_ptr<future_state<T>> state_;
};

template <class List>
struct only_answer;
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

/// What an actor of this interface answers to such a message, as a list. Does not compile when it
/// does not know it.
template <class Handle, class... Ts>
using answers_to =
    caf::response_type_t<typename Handle::signatures,
                         typename caf::detail::implicit_conversions<std::decay_t<Ts>>::type...>;

/// The same as a type.
template <class Handle, class... Ts>
using answer_to = typename only_answer<answers_to<Handle, Ts...>>::type;

std::shared_ptr<engine> driver_of(const caf::strong_actor_ptr& receiver);

/// The actor as one of another node that is not known to have ended; else nullptr.
remote_actor* alive_elsewhere(const caf::strong_actor_ptr& receiver);

}  // namespace detail

/// Asks an actor, wherever it is, from any thread. The answer's future waits without a limit of its
/// own: it ends with the answer, the actor's end or the loss of its node.
template <class Handle, class... Ts>
auto request(const Handle& receiver, Ts&&... message) {
  using answer = detail::answer_to<Handle, Ts...>;
  (void)interface_registration<Handle>::done;
  if (!receiver) throw invalid_argument("a request to an actor handle that names no actor");
  auto target = caf::actor_cast<caf::strong_actor_ptr>(receiver);
  if (auto* elsewhere = detail::alive_elsewhere(target)) {
    auto& actors = elsewhere->owner();
    auto state = std::make_shared<detail::remote_answer<answer>>(actors, elsewhere->rank());
    actors.request(
        *elsewhere, [&](encoder& out) { put_as_message(out, message...); }, state);
    return future<answer>(std::move(state));
  }
  auto state = std::make_shared<detail::future_state<answer>>(detail::driver_of(target));
  if (target->node() == target->home_system->node()) state->answered_by(target->id());
  caf::actor_config config;
  auto cell = caf::make_actor<detail::answer_cell<answer>, caf::strong_actor_ptr>(
      0, target->home_system->node(), target->home_system, config, state);
  target->enqueue(
      caf::make_mailbox_element(std::move(cell), caf::message_id(1).with_normal_priority(), {},
                                caf::make_message(std::forward<Ts>(message)...)),
      nullptr);
  return future<answer>(std::move(state));
}

/// Tells an actor, wherever it is, from any thread. Nobody hears whether it takes the message; what
/// it answers is dropped. Does not block and throws nothing but invalid_argument, for a handle that
/// names no actor.
template <class Handle, class... Ts>
void send(const Handle& receiver, Ts&&... message) {
  // Does not compile when the actor does not know it.
  using known [[maybe_unused]] = detail::answers_to<Handle, Ts...>;
  (void)interface_registration<Handle>::done;
  if (!receiver) throw invalid_argument("a message to an actor handle that names no actor");
  caf::actor_cast<caf::strong_actor_ptr>(receiver)->enqueue(
      caf::make_mailbox_element(nullptr, caf::make_message_id(), {},
                                caf::make_message(std::forward<Ts>(message)...)),
      nullptr);
}

/// Asks all of them the same and gathers the answers, in order.
template <class Handle, class... Ts>
requires caf::is_typed_actor<Handle>::value auto when_all(const std::vector<Handle>& receivers,
                                                          const Ts&... message) {
  std::vector<future<detail::answer_to<Handle, Ts...>>> all;
  all.reserve(receivers.size());
  for (const auto& receiver : receivers) all.push_back(request(receiver, message...));
  return when_all(all);
}

}  // namespace troupe
