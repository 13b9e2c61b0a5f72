#include "actors/spawn.hpp"

namespace troupe::detail {

caf::error end_with_exception(caf::scheduled_actor* self, std::exception_ptr& thrown) {
  auto* node = current_node();
  auto why = to_caf(describe(thrown, node ? node->self().name : "", self->name()));
  if (auto* current = self->current_mailbox_element();
      current && current->mid.is_request() && !current->mid.is_answered())
    self->make_response_promise().deliver(why);
  return why;
}

}  // namespace troupe::detail
