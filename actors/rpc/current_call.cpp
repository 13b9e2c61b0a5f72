#include "troupe/actors/rpc/current_call.hpp"

#include "troupe/actors/messaging/active_calls.hpp"
#include "troupe/actors/remote/mailbox_message.hpp"
#include "troupe/actors/rpc/rpc_node.hpp"

namespace troupe {

namespace {

std::optional<clock::time_point> unless_never(clock::time_point deadline) {
  return deadline == never ? std::nullopt : std::optional(deadline);
}

}  // namespace

std::optional<std::chrono::nanoseconds> call_info::time_left() const {
  if (!deadline) return std::nullopt;
  return std::max<std::chrono::nanoseconds>(*deadline - clock::now(), std::chrono::nanoseconds(0));
}

bool call_cancelled() noexcept {
  const auto call = current_active_call();
  const auto* const agent = call ? current_agent() : nullptr;
  return agent && agent->active().cancelled(call);
}

std::optional<call_info> current_call() {
  const auto* const node = current_node_context();
  if (!node) return std::nullopt;
  if (const auto call = current_active_call())
    return call_info{call.from->info, std::string(call.function), 0, unless_never(call.deadline),
                     call_cancelled()};
  const auto* const message = detail::message_at_work();
  if (!message) return std::nullopt;
  const auto* const known = dynamic_cast<const mailbox_message*>(message);
  const auto origin = known ? known->origin() : message_origin();
  return call_info{origin.from ? origin.from->info : node->self(), std::string(name_of(*message)),
                   current_actor(), unless_never(origin.deadline), false};
}

}  // namespace troupe
