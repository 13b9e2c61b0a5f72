#pragma once

#include <caf/actor_config.hpp>
#include <caf/make_actor.hpp>
#include <caf/monitorable_actor.hpp>
#include <caf/response_type.hpp>

#include "actors/future.hpp"
#include "actors/node_core.hpp"

namespace troupe {

namespace detail {

/// Takes the answer of an actor on behalf of a future. Dropped without one, the future fails.
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
    if (answer.match_elements<caf::error>())
      state_->set_exception(to_exception(to_fault(answer.get_as<caf::error>(0))));
    else if constexpr (std::is_void_v<T>)
      state_->set_value();
    else if (answer.match_elements<T>())
      state_->set_value(std::move(answer.get_mutable_as<T>(0)));
    else
      state_->set_exception(std::make_exception_ptr(
          remote_error("the actor's answer is not a " + std::string(type_name<T>()))));
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

/// What an actor of this interface answers to such a message. Does not compile when it does not
/// know it.
template <class Handle, class... Ts>
using answer_to = typename only_answer<caf::response_type_t<
    typename Handle::signatures,
    typename caf::detail::implicit_conversions<std::decay_t<Ts>>::type...>>::type;

std::shared_ptr<engine> driver_of(const caf::strong_actor_ptr& receiver);

}  // namespace detail

/// Asks an actor, wherever it is, from any thread. The answer's future waits without a limit of its
/// own: it ends with the answer, the actor's end or the loss of its node.
template <class Handle, class... Ts>
auto request(const Handle& receiver, Ts&&... message) {
  using answer = detail::answer_to<Handle, Ts...>;
  (void)interface_registration<Handle>::done;
  if (!receiver) throw invalid_argument("a request to an actor handle that names no actor");
  auto target = caf::actor_cast<caf::strong_actor_ptr>(receiver);
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
