#include "troupe/actors/remote/request.hpp"

#include "troupe/actors/remote/actor_proxy.hpp"
#include "troupe/actors/remote/actor_system_host.hpp"
#include "troupe/actors/remote/answer_cell.hpp"
#include "troupe/actors/remote/mailbox_message.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/remote/remote_node.hpp"

namespace troupe::detail {

namespace {

// The context in which the calling thread asks an actor of that node. 0 also if the node does not
// know the thread's: it is another one of this process.
std::uint64_t context_at(const remote_actors& actors) {
  const auto context = current_context();
  if (context == 0) return 0;
  if (auto* here = current_remote_node(); here && &here->actors() == &actors) return context;
  const auto* records = actors.records();
  return records && records->knows(context) ? context : 0;
}

}  // namespace

fault fault_in(const caf::error& answer, caf::actor_system* system, std::string_view message) {
  auto why = to_fault(answer);
  if (why.code != errc::actor_down) return why;
  if (why.function.empty()) why.function = message;
  if (why.node.empty() && system)
    if (const auto actors = actor_system_host::find_actors_of(system))
      why.node = actors->own_name();
  return why;
}

actor_proxy* alive_elsewhere(const caf::strong_actor_ptr& receiver) {
  forked::check();
  auto* remote = dynamic_cast<actor_proxy*>(receiver->get());
  return remote && !remote->ended() ? remote : nullptr;
}

remote_actors& actors_at(const actor_proxy& one) noexcept { return remote_actors::of(one); }

peer& home_of(const actor_proxy& one) noexcept { return one.home(); }

std::uint64_t send_request(const actor_proxy& target, std::string_view name,
                           const call_options& how, std::shared_ptr<reply_sink> sink,
                           function_ref<void(encoder&)> write) noexcept {
  pending_request pending;
  pending.function = name;
  pending.limit = std::max(how.limit, std::chrono::milliseconds(0));
  pending.wait = how.wait;
  pending.urgent = how.urgent;
  pending.sink = std::move(sink);
  return remote_actors::of(target).request(target, write, std::move(pending));
}

void send_message(const actor_proxy& target, std::string_view name, const call_options& how,
                  function_ref<void(encoder&)> write) {
  auto& actors = remote_actors::of(target);
  actors.send_message(target, name, how.urgent, how.wait && actors.senders_wait(), write);
}

std::shared_ptr<remote_actors> actors_of(const caf::strong_actor_ptr& receiver) {
  return actor_system_host::actors_of(receiver->home_system);
}

local_question ask_here(caf::strong_actor_ptr target) {
  auto actors = actors_of(target);
  auto driver = actors->driver();
  return {std::move(target), std::move(actors), std::move(driver)};
}

void send_here(local_question&& question, std::shared_ptr<future_core> state,
               std::shared_ptr<reply_sink> limited, answer_taker take, std::string_view name,
               const call_options& how, caf::message&& content) {
  const auto send = [&] {
    const auto& target = question.target;
    local_request entry;
    if (limited) entry = local_request(question.actors, name, how.limit, limited);
    if (target->node() == target->home_system->node()) state->answered_by(target->id());
    auto cell =
        make_answer_cell(*target->home_system, std::move(state), take, std::move(entry), name);
    const auto id = with_priority(caf::message_id(1), how);
    if (current_context() != 0 || limited)
      target->enqueue(make_mailbox_message(std::move(cell), id, std::move(content),
                                           context_at(*question.actors), {},
                                           {nullptr, limited ? deadline_after(how.limit) : never}),
                      nullptr);
    else
      target->enqueue(caf::make_mailbox_element(std::move(cell), id, {}, std::move(content)),
                      nullptr);
  };
  // The actor's system is gone once the node has ended. By reference: without an allocation.
  if (!question.driver->run_if_open(std::ref(send)))
    throw not_initialized("the actor's node has been shut down");
}

void throw_stays_here(const actor_proxy& receiver, std::string_view message) {
  throw invalid_argument("a " + std::string(message) + " never leaves its node, and actor " +
                         std::to_string(receiver.id()) + " is on " + receiver.home().info.name);
}

}  // namespace troupe::detail
