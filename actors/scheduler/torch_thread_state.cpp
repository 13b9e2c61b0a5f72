#include "troupe/actors/scheduler/torch_thread_state.hpp"

namespace troupe {

namespace {

// Where libtorch keeps the calling thread's state: looking it up takes longer than writing it.
struct torch_state {
  c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
  c10::impl::PODLocalDispatchKeySet& keys = c10::impl::raw_local_dispatch_key_set;
};

torch_state& state_here() noexcept {
  thread_local torch_state state;
  return state;
}

bool is_clean(const torch_state& state) noexcept {
  return state.keys.included_ == 0 && state.keys.excluded_ == 0 && state.autograd.get_grad_mode() &&
         !state.autograd.get_inference_mode() && state.autograd.get_fw_grad_mode();
}

void clean(torch_state& state) noexcept {
  state.autograd = c10::AutogradState(/*grad_mode=*/true, /*inference_mode=*/false,
                                      /*fw_grad_mode=*/true, /*multithreading_enabled=*/true);
  state.keys = {};  // as of a new thread: stands for the default sets
}

}  // namespace

void clean_thread_state() noexcept {
  clean(state_here());
  if (c10::ThreadLocalDebugInfo::current())
    c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(nullptr);
}

kept_torch_state::kept_torch_state() noexcept
    : autograd_(state_here().autograd),
      keys_(state_here().keys),
      debug_(c10::ThreadLocalDebugInfo::current()) {
  clean_thread_state();
}

kept_torch_state::~kept_torch_state() {
  auto& state = state_here();
  state.autograd = autograd_;
  state.keys = keys_;
  if (debug_ || c10::ThreadLocalDebugInfo::current())
    c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(debug_);
}

libtorch_untouched::libtorch_untouched() noexcept {
  auto& state = state_here();
  if (is_clean(state)) return;
  before_.emplace(before{state.autograd, state.keys});
  clean(state);
}

libtorch_untouched::~libtorch_untouched() {
  if (!before_) return;
  auto& state = state_here();
  state.autograd = before_->autograd;
  state.keys = before_->keys;
}

}  // namespace troupe
