#include "troupe/actors/remote/inline_run.hpp"

#include <caf/exit_reason.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/system_messages.hpp>

#include "troupe/actors/remote/handler_run.hpp"
#include "troupe/actors/remote/mailbox_message.hpp"
#include "troupe/actors/scheduler/engine.hpp"

namespace troupe::detail {

bool inline_run::send(remote_node& node, const caf::strong_actor_ptr& actor,
                      function_ref<caf::mailbox_element_ptr()> make) {
  struct {
    const caf::strong_actor_ptr& actor;
    function_ref<caf::mailbox_element_ptr()> make;
    inline_run here;
  } all{actor, make, inline_run(node)};
  return node.driver()->run_if_open([&all] {
    all.actor->enqueue(all.make(), &all.here);
    all.here.run();
  });
}

void inline_run::exec_later(caf::resumable* item) {
  if (item_ || item->subtype() != caf::resumable::scheduled_actor)
    node_.driver()->push(item);
  else
    item_ = item;
}

void inline_run::run() {
  constexpr std::size_t most_messages = 64;
  auto* item = std::exchange(item_, nullptr);
  if (!item) return;
  const foreign_run_scope here(*node_.driver());  // until what is left of it is in the queue
  caf::resumable::resume_result left;
  {
    const torch_thread_state_scope kept;
    set_current_node(&node_);
    const actor_turn turn(*static_cast<caf::scheduled_actor*>(item));
    left = item->resume(this, most_messages);
  }
  if (left == caf::resumable::resume_later)
    node_.driver()->push(item);
  else if (left != caf::resumable::shutdown_execution_unit)
    intrusive_ptr_release(item);
  if (auto* next = std::exchange(item_, nullptr)) node_.driver()->push(next);
}

bool notify_inline(remote_node& node, const caf::strong_actor_ptr& actor, caf::message what) {
  return inline_run::send(node, actor, [&] {
    return caf::make_mailbox_element(nullptr, caf::make_message_id(caf::message_priority::high), {},
                                     std::move(what));
  });
}

void end_inline(remote_node& node, const caf::strong_actor_ptr& actor) {
  notify_inline(node, actor, caf::make_message(caf::exit_msg{{}, caf::exit_reason::user_shutdown}));
}

}  // namespace troupe::detail
