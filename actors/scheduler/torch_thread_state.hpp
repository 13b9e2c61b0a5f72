#pragma once

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>
#include <optional>

namespace troupe {

/// Puts the calling thread's libtorch state back to that of a new thread: grad mode on, no
/// inference mode, no dispatch keys forced, no autocast, no debug info. A handler must not inherit
/// what the one before it on the same thread left behind. A few thread-local stores.
void clean_thread_state() noexcept;

/// While it lives, libtorch's state of the calling thread is that of a new thread; afterwards it is
/// what it was before, debug info included.
class kept_torch_state {
public:
  kept_torch_state() noexcept;
  ~kept_torch_state();
  kept_torch_state(const kept_torch_state&) = delete;
  kept_torch_state& operator=(const kept_torch_state&) = delete;

private:
  const c10::AutogradState autograd_;
  const c10::impl::PODLocalDispatchKeySet keys_;
  const std::shared_ptr<c10::ThreadLocalDebugInfo> debug_;
};

/// The same without the debug info: what arrives must not depend on the grad mode and the like that
/// the program has set on the thread that takes it. A few loads if the state is that of a new
/// thread already.
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
