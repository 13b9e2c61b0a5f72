#pragma once

#include "troupe/actors/node/node.hpp"

namespace troupe::detail {

/// Takes no answer. A call for this sink carries no request, so that the callee sends none, and
/// nothing is kept of it here: what the function throws is in the callee's log only.
const std::shared_ptr<reply_sink>& no_reply_sink();

/// Calls F on another node, or this one, for nobody: what goes wrong before it is sent, a lost peer
/// or a full window, nobody hears either. A graceful shutdown waits for it. F returns nothing, and
/// at once: nobody waits for what it would do later. Not sent if the arguments hold handles or
/// references: who has been given them is told by answers.
template <auto F, class... Args>
void call_one_way(node_core& here, peer& to, call_options how, const Args&... args) {
  using parameters = typename function_target<F>::template parameters<void>;
  static_assert(std::is_void_v<typename callable<F>::function::result>);
  static_assert((!is_rref<Args> && ...));
  static_assert(call_check<function_target<F>, void, Args...>::ok);
  (void)callable<F>::registered;
  how.limit = std::chrono::milliseconds(0);
  here.call(
      to, callable<F>::hash(), callable<F>::name, no_reply_sink(), how,
      [&](encoder& out, handle_scope& handles) { write_arguments<parameters>(out, handles, args...); });
}

}  // namespace troupe::detail
