#pragma once

namespace troupe {

/// Between two looks of a thread that polls: leaves the core to its other hyperthread, which may
/// run the thread that is waited for, and its caches alone for a moment (some 40 cycles and more).
inline void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

}  // namespace troupe
