#include "troupe/actors/remote/request.hpp"

#include "troupe/actors/remote/actor_system_host.hpp"
#include "troupe/actors/remote/remote_node.hpp"

namespace troupe::detail {

std::shared_ptr<remote_actors> actors_of(const caf::strong_actor_ptr& receiver) {
  return actor_system_host::actors_of(receiver->home_system);
}

local_request::local_request(const std::shared_ptr<remote_actors>& actors, std::string_view message,
                             std::chrono::milliseconds limit,
                             const std::shared_ptr<reply_sink>& sink) {
  forked::check();
  gate::pass pass(actors->entrance());
  if (!pass) throw not_initialized("the node has been shut down");
  pending_request pending;
  pending.peer = actors->out().self().rank;
  pending.function = message;
  pending.limit = limit;
  pending.sink = sink;
  id_ = actors->expect(std::move(pending));
  actors_ = actors;
}

local_request::~local_request() {
  if (forked::from_nodes()) return;
  if (auto actors = actors_.lock()) actors->requests().take(id_, actors->out().self().rank);
}

fault fault_in(const caf::error& answer, caf::actor_system* system, std::string_view message) {
  auto why = to_fault(answer);
  if (why.code != errc::actor_down) return why;
  if (why.function.empty()) why.function = message;
  if (why.node.empty() && system)
    if (const auto actors = actor_system_host::find_actors_of(system))
      why.node = actors->own_name();
  return why;
}

std::uint64_t context_at(const remote_actors& actors) {
  const auto context = current_context();
  if (context == 0) return 0;
  if (auto* here = current_remote_node(); here && &here->actors() == &actors) return context;
  const auto* records = actors.records();
  return records && records->knows(context) ? context : 0;
}

actor_proxy* alive_elsewhere(const caf::strong_actor_ptr& receiver) {
  forked::check();
  auto* remote = dynamic_cast<actor_proxy*>(receiver->get());
  return remote && !remote->ended() ? remote : nullptr;
}

void throw_stays_here(const actor_proxy& receiver, std::string_view message) {
  throw invalid_argument("a " + std::string(message) + " never leaves its node, and actor " +
                         std::to_string(receiver.id()) + " is on " + receiver.home().info.name);
}

}  // namespace troupe::detail
