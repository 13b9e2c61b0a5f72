#pragma once

#include <atomic>
#include <memory>

#include "troupe/messages/base/forked.hpp"

namespace troupe::transport {

/// What a process has once: made at the first use and never destroyed, so that it can be used while
/// static objects are destroyed. A forked process makes one of its own, whatever state the fork
/// found its parent's in. Thread-safe; T's constructor may run on several threads, whose objects
/// are destroyed but for one.
template <class T>
class per_process {
public:
  constexpr per_process() = default;

  T& get() {
    holder* now = current_.load(std::memory_order_acquire);
    if (now != nullptr && now->home.here()) return now->value;
    auto made = std::make_unique<holder>();
    made->before = now;
    if (current_.compare_exchange_strong(now, made.get(), std::memory_order_acq_rel,
                                         std::memory_order_acquire))
      return made.release()->value;
    return now->value;  // another thread of this process was faster
  }

private:
  struct holder {
    forked::home home;
    T value;
    holder* before = nullptr;  // the parent's: unused, and no leak
  };

  std::atomic<holder*> current_{nullptr};
};

}  // namespace troupe::transport
