#include "troupe/actors/remote/handler_run.hpp"

#include <caf/scheduled_actor.hpp>
#include <optional>

#include "troupe/actors/deadlock/held_waits.hpp"
#include "troupe/actors/profiling/event_collector.hpp"
#include "troupe/actors/remote/mailbox_message.hpp"
#include "troupe/messages/base/forked.hpp"

namespace troupe::detail {

torch_thread_state_scope::~torch_thread_state_scope() {
  set_current_actor(actor_);
  set_current_node(node_);
}

void prepare_thread_for(node_context& node) noexcept {
  clean_thread_state();
  collecting::leave();
  set_current_node(&node);
  set_current_actor(0);
  clear_current_call_context();
}

caf::resumable::resume_result resume_item(caf::resumable& item, caf::execution_unit& unit,
                                          std::size_t most) {
  std::optional<actor_turn> turn;
  if (item.subtype() == caf::resumable::scheduled_actor)
    turn.emplace(static_cast<caf::scheduled_actor&>(item));
  const auto left = item.resume(&unit, most);
  if (forked::from_nodes()) forked::end_handler("a handler");
  turn.reset();
  collecting::leave();  // a coroutine that waits now has left its profile here
  return left;
}

void run_between_waits(node_context& node, function_ref<void()> body) {
  const torch_thread_state_scope kept;
  const deadlock::held_waits::interruption busy;
  // What runs here while the thread waits belongs to the thread's own profile.
  auto* const profile = collecting::turn_to(nullptr);
  prepare_thread_for(node);
  collecting::turn_to(profile);
  body();
  if (!profile) collecting::leave();  // a coroutine that waits now has left its profile here
}

}  // namespace troupe::detail
