#include "actors/thread_state.hpp"

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace troupe {

namespace {

// Where libtorch keeps the calling thread's state: looking that up takes longer than writing it.
struct torch_state {
  c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
  c10::impl::PODLocalDispatchKeySet& keys = c10::impl::raw_local_dispatch_key_set;
};

}  // namespace

void clean_thread_state() noexcept {
  thread_local const torch_state state;
  state.autograd = c10::AutogradState(/*grad_mode=*/true, /*inference_mode=*/false,
                                      /*fw_grad_mode=*/true, /*multithreading_enabled=*/true);
  state.keys = {};  // a new thread's, which stands for the default sets
  if (c10::ThreadLocalDebugInfo::current())
    c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(nullptr);
}

}  // namespace troupe
