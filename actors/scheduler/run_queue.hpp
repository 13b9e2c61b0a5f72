#pragma once

#include <atomic>
#include <caf/resumable.hpp>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace troupe {

/// Work that any thread of a node may take: actors with mail, calls, continuations. One queue for
/// all threads, so that nothing starves behind a handler that blocks. First in, first out, and
/// urgent jobs before all others.
class run_queue {
public:
  /// Takes over one reference to `job`.
  void push(caf::resumable* job, bool urgent = false) {
    std::lock_guard guard(mutex_);
    (urgent ? urgent_ : jobs_).push_back(job);
    count();
  }

  /// Hands over one reference, or nullptr. Without a lock when the queue is empty.
  caf::resumable* try_pop() {
    if (empty()) return nullptr;
    std::lock_guard guard(mutex_);
    auto& from = urgent_.empty() ? jobs_ : urgent_;
    if (from.empty()) return nullptr;
    auto* job = from.front();
    from.pop_front();
    count();
    return job;
  }

  /// Is there one of which `is` is true? It is called under the queue's lock.
  bool any(const std::function<bool(caf::resumable&)>& is) const {
    std::lock_guard guard(mutex_);
    for (const auto* from : {&urgent_, &jobs_})
      for (auto* job : *from)
        if (is(*job)) return true;
    return false;
  }

  /// Hands over all of which `is` is true, which is called under the queue's lock.
  std::vector<caf::resumable*> take(const std::function<bool(caf::resumable&)>& is) {
    std::vector<caf::resumable*> out;
    std::lock_guard guard(mutex_);
    for (auto* from : {&urgent_, &jobs_})
      std::erase_if(*from, [&](caf::resumable* job) {
        const bool taken = is(*job);
        if (taken) out.push_back(job);
        return taken;
      });
    count();
    return out;
  }

  bool empty() const noexcept { return size_.load(std::memory_order_seq_cst) == 0; }

private:
  void count() { size_.store(jobs_.size() + urgent_.size(), std::memory_order_seq_cst); }

  mutable std::mutex mutex_;
  std::deque<caf::resumable*> jobs_;
  std::deque<caf::resumable*> urgent_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace troupe
