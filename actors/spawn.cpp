#include "actors/spawn.hpp"

#include "messages/type_table.hpp"

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
  auto* node = current_node();
  auto why =
      to_caf(describe(thrown, node ? node->self().name : "", std::string(function_of(self))));
  if (auto* current = self->current_mailbox_element();
      current && current->mid.is_request() && !current->mid.is_answered())
    self->make_response_promise().deliver(why);
  return why;
}

}  // namespace troupe::detail
