#pragma once

#include <cstdint>
#include <exception>
#include <memory>

#include "troupe/actors/future/future.hpp"
#include "troupe/autograd/context/participant.hpp"
#include "troupe/autograd/pass/pass_messages.hpp"

namespace troupe {

class node_core;
class opened_envelope;

}  // namespace troupe

namespace troupe::autograd::detail {

// What the nodes of a context request of each other in a pass. The first three begin a step on
// another node and return it; its end, or why it cannot be run, is reported to the pass's starter.

next_step request_marks(node_core& here, std::uint32_t rank, mark_sends what);
next_step request_resume(node_core& here, std::uint32_t rank, resume what);
/// To the sender of `of`. The gradients go to the devices that its tensors came from, by the device
/// map of their message.
next_step send_gradients(node_core& here, const recv_rpc_backward& of, gradients_arrive what);

/// Tells a member that a pass has failed. Takes no answer.
void notify_forget(node_core& here, peer& to, std::uint64_t context, std::uint64_t pass) noexcept;

/// Does that call begin a step of this pass, or report one?
bool is_step_of(const pass_info& pass, const opened_envelope& call) noexcept;

/// The actor that runs this node's steps in a context. Throws unknown_context.
pass_actor actor_of(node_core& here, const std::shared_ptr<participant>& part);

/// Calls `next(report, failure)` when a step is over, on the thread that completes it: either
/// `report` or `failure` is null.
template <class Next>
void when_over(const future<step_report>& step, const Next& next) {
  const auto state = step.shared();  // NOLINT(*-copy-initialization): `next` may drop the step
  state->when_ready_at_once(troupe::detail::make_continuation(
      [state, next] { next(state->failure() ? nullptr : &*state->value(), state->failure()); }));
}

}  // namespace troupe::autograd::detail
