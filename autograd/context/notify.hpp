#pragma once

#include <exception>

#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/rpc/one_way.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::autograd::detail {

/// Calls F on `to` and takes no answer. Does not wait for credit of `to`, is part of no context,
/// and does nothing if `to` is lost.
template <auto F, class... Args>
void notify(node_core& here, peer& to, const Args&... args) noexcept {
  const troupe::detail::call_context_scope nothing(troupe::detail::apart());
  try {
    if (to.live())
      troupe::detail::call_one_way<F>(here.agent(), to, {.exceeds_window = true}, args...);
  } catch (const std::exception& e) {
    log().debug("{} could not notify {}: {}", here.self().name, to.info.name, e.what());
  }
}

}  // namespace troupe::autograd::detail
