#pragma once

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>
#include <optional>

#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/actors/future/wait_all.hpp"

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
  const detail::call_context_scope nothing_{{}};
  const detail::calls_to_await::pause nobodys_;
};

/// While it lives, libtorch's state of the calling thread is as clean as a new one's: what arrives
/// must not depend on what the program does on the thread that takes it. A few loads if it is clean
/// already.
class libtorch_untouched {
public:
  libtorch_untouched() noexcept;
  ~libtorch_untouched();
  libtorch_untouched(const libtorch_untouched&) = delete;
  libtorch_untouched& operator=(const libtorch_untouched&) = delete;

private:
  struct before {
    c10::AutogradState autograd;
    c10::impl::PODLocalDispatchKeySet keys;
  };
  std::optional<before> before_;
};

}  // namespace troupe
