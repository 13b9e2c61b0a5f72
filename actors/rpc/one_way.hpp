#pragma once

#include "troupe/actors/messaging/no_reply_sink.hpp"
#include "troupe/actors/rpc/calls.hpp"
#include "troupe/actors/rpc/function_target.hpp"

namespace troupe::detail {

/// One-way call of F on another node, or this one. Errors before the send, a lost peer or a full
/// window, are not reported either. A graceful shutdown waits for it. F returns nothing, and at
/// once. Not sent if the arguments hold handles or references, which answers settle.
template <auto F, class... Args>
void call_one_way(rpc_agent& here, peer& to, call_options how, const Args&... args) {
  using parameters = typename function_target<F>::template parameters<void>;
  static_assert(std::is_void_v<typename callable<F>::function::result>);
  static_assert((!is_rref<Args> && ...));
  static_assert(call_check<function_target<F>, void, Args...>::ok);
  (void)callable<F>::registered;
  how.limit = std::chrono::milliseconds(0);
  here.call(to, callable<F>::hash(), callable<F>::name, no_reply_sink(), how,
            [&](encoder& out, handle_scope& handles) {
              write_arguments<parameters>(out, handles, args...);
            });
}

}  // namespace troupe::detail
