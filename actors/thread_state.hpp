#pragma once

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>

#include "actors/current.hpp"

namespace troupe {

/// Puts the calling thread's libtorch state back to that of a new thread: grad mode on, no
/// inference mode, no dispatch keys forced, no autocast, no debug info. A handler must not inherit
/// what the one before it on the same thread left behind. A few thread-local stores.
void clean_thread_state() noexcept;

/// While it lives, the calling thread is as clean as a new one; then it is again what it was
/// before: libtorch's state, and for whom it runs what.
class kept_thread {
public:
  kept_thread() noexcept;
  ~kept_thread();
  kept_thread(const kept_thread&) = delete;
  kept_thread& operator=(const kept_thread&) = delete;

private:
  const c10::AutogradState autograd_;
  const c10::impl::PODLocalDispatchKeySet keys_;
  const std::shared_ptr<c10::ThreadLocalDebugInfo> debug_;
  node_core* const node_ = current_node();
  const std::uint64_t actor_ = current_actor();
  const detail::serving nothing_{{}};
};

}  // namespace troupe
