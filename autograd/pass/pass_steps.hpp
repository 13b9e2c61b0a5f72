#pragma once

#include "troupe/autograd/context/participant.hpp"

namespace troupe {

class opened_envelope;

}  // namespace troupe

namespace troupe::autograd::detail {

// What nodes of a context ask of each other. The first three begin a step of a pass on another
// node, whose starter hears of its end, or of why it cannot be done.

next_step ask_for_marks(node_core& here, std::uint32_t rank, mark_sends what);
next_step ask_to_resume(node_core& here, std::uint32_t rank, resume what);
/// To the sender of `of`. Their devices are those from which its tensors have come, by the device
/// map of their message.
next_step send_gradients(node_core& here, const receive_node& of, gradients_arrive what);
void tell_forget(node_core& here, peer& whom, std::uint64_t context, std::uint64_t pass) noexcept;
void tell_end(node_core& here, peer& whom, std::uint64_t context, const std::string& why,
              bool is_opener) noexcept;

/// Does that call begin a step of this pass, or tell of one?
bool is_step_of(const pass_info& pass, const opened_envelope& call) noexcept;

/// Calls `next` with the report of a step, or why it has failed, on the thread that hears of it.
template <class Next>
void when_over(const future<step_report>& step, const Next& next) {
  const auto state = step.shared();
  state->when_ready_at_once(troupe::detail::make_continuation(
      [state, next] { next(state->failure() ? nullptr : &*state->value(), state->failure()); }));
}

}  // namespace troupe::autograd::detail
