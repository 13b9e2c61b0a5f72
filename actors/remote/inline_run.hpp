#pragma once

#include <caf/execution_unit.hpp>
#include <caf/message.hpp>
#include <utility>

#include "troupe/actors/remote/answer_cell.hpp"
#include "troupe/actors/remote/remote_node.hpp"
#include "troupe/actors/remote/request.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/messages/base/function_ref.hpp"

namespace troupe::detail {

/// The calling thread, lent to one actor of its node: the actor handles its message here and now,
/// unless another thread runs it already. Saves a hop, and the wake-up that goes with it. The actor
/// finds a clean thread, and the caller its own again.
class inline_run final : public caf::execution_unit {
public:
  /// Sends what `make` makes to `actor`, and runs it until it has no messages. False: the node has
  /// ended, and nothing was made: the actor's system may be gone.
  static bool send(remote_node& node, const caf::strong_actor_ptr& actor,
                   function_ref<caf::mailbox_element_ptr()> make);

  /// Takes the first actor that gets work from this thread; others go to the node's threads.
  void exec_later(caf::resumable* item) override;

private:
  explicit inline_run(remote_node& node) : node_(node) {}
  void run();

  remote_node& node_;
  caf::resumable* item_ = nullptr;
};

/// What `request` does, on the calling thread if possible: then the future is ready. For actors of
/// the runtime on `node` whose handlers do not wait, and work in no context.
template <class Handle, class Message>
auto request_inline(remote_node& node, const Handle& receiver, Message&& message) {
  using answer = answer_to<Handle, Message>;
  (void)interface_registration<Handle>::done;
  auto target = caf::actor_cast<caf::strong_actor_ptr>(receiver);
  auto state = std::make_shared<future_state<answer>>(node.driver());
  const auto question = [&] {
    auto cell = make_answer_cell(*target->home_system, state, taker_of<answer>, local_request(),
                                 type_name<std::decay_t<Message>>());
    return caf::make_mailbox_element(std::move(cell), caf::message_id(1), {},
                                     message_of(std::forward<Message>(message)));
  };
  const call_context_scope nothing(apart());
  if (!inline_run::send(node, target, question))
    state->set_exception(std::make_exception_ptr(not_initialized("the node has been shut down")));
  return future<answer>(std::move(state));
}

/// Sends `what` to an actor of `node`, ahead of other messages, on the calling thread if possible.
/// False: the node has ended.
bool notify_inline(remote_node& node, const caf::strong_actor_ptr& actor, caf::message what);

/// Ends an actor of `node`, on the calling thread if possible.
void end_inline(remote_node& node, const caf::strong_actor_ptr& actor);

}  // namespace troupe::detail
