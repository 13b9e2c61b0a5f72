#include "actors/thread_state.hpp"

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace troupe {

void clean_thread_state() noexcept {
  c10::AutogradState::set_tls_state(c10::AutogradState(
      /*grad_mode=*/true, /*inference_mode=*/false, /*fw_grad_mode=*/true,
      /*multithreading_enabled=*/true));
  // A new thread's key sets are stored as zeros.
  static const c10::impl::LocalDispatchKeySet fresh{c10::impl::PODLocalDispatchKeySet{}};
  c10::impl::_force_tls_local_dispatch_key_set(fresh);
  if (c10::ThreadLocalDebugInfo::current())
    c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(nullptr);
}

}  // namespace troupe
