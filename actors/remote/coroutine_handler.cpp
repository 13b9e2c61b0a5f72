#include "troupe/actors/remote/coroutine_handler.hpp"

#include <caf/scheduled_actor.hpp>
#include <caf/system_messages.hpp>

#include "troupe/actors/remote/actor_system_host.hpp"
#include "troupe/actors/remote/mailbox_message.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/codec/message_codec.hpp"

namespace troupe::detail {

later_answer later_answer::of_this_message() {
  auto* const self = actor_at_work();
  if (!self || !self->current_mailbox_element())
    throw invalid_argument(
        "only a handler of an actor that `spawn` or `spawn_on` has made can be a coroutine");
  const auto message = name_of(*self->current_mailbox_element());
  return {caf::strong_actor_ptr(self->ctrl()), self->make_response_promise(), message};
}

// Not by the promise's own `deliver`, which looks at the actor's thread.
void later_answer::give(caf::message what) {
  if (!promise_.pending() || !promise_.id().is_request()) return;
  const auto promise = std::exchange(promise_, {});
  if (promise.stages().empty()) {
    promise.source()->enqueue(self_, promise.id().response_id(), std::move(what), nullptr);
    return;
  }
  auto stages = promise.stages();
  const auto next = std::move(stages.back());
  stages.pop_back();
  next->enqueue(
      caf::make_mailbox_element(promise.source(), promise.id(), std::move(stages), std::move(what)),
      nullptr);
}

void later_answer::fail(const std::exception_ptr& why) {
  const auto actors = actor_system_host::find_actors_of(self_->home_system);
  const auto text =
      describe(why, actors ? actors->own_name() : std::string(), std::string(message_));
  const auto reason = to_caf(text);
  if (promise_.pending() && promise_.id().is_request())
    give(caf::make_message(reason));
  else
    log().error("{}: actor {} has ended, because it threw {}: {}", text.node, self_->id(),
                text.type, text.text);
  self_->enqueue(
      caf::make_mailbox_element(nullptr, caf::make_message_id(caf::message_priority::high), {},
                                caf::exit_msg{self_->get()->address(), reason}),
      nullptr);
}

}  // namespace troupe::detail
