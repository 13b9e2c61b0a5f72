#include "troupe/actors/remote/spawn.hpp"

#include "troupe/actors/remote/remote_node.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/codec/message_codec.hpp"
#include "troupe/messages/codec/type_registration.hpp"

namespace troupe::detail {

namespace {

// The type of the message that it handles; its own name when there is none.
std::string_view function_of(caf::scheduled_actor* self) {
  auto* current = self->current_mailbox_element();
  if (current && current->content().size() > 0)
    if (const auto* type = find_type(current->content().type(0))) return type->name;
  return self->name();
}

}  // namespace

caf::error end_with_exception(caf::scheduled_actor* self, std::exception_ptr& thrown) {
  auto* node = current_node_context();
  const auto fault =
      describe(thrown, node ? node->self().name : "", std::string(function_of(self)));
  auto why = to_caf(fault);
  if (auto* current = self->current_mailbox_element();
      current && current->mid.is_request() && !current->mid.is_answered())
    self->make_response_promise().deliver(why);
  else
    log().error("{}: actor {} has ended, because it threw {}: {}", fault.node, self->id(),
                fault.type, fault.text);
  return why;
}

actor_spawner& current_spawner() noexcept { return current_remote_node()->spawner(); }

}  // namespace troupe::detail
