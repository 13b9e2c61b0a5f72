#pragma once

namespace troupe {

/// Puts the calling thread's libtorch state back to that of a new thread: grad mode on, no
/// inference mode, no dispatch keys forced, no autocast, no debug info. A handler must not inherit
/// what the one before it on the same thread left behind. A few thread-local stores.
void clean_thread_state() noexcept;

}  // namespace troupe
