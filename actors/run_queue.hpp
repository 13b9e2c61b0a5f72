#pragma once

#include <atomic>
#include <caf/resumable.hpp>
#include <deque>
#include <mutex>

namespace troupe {

/// Work that any thread of a node may take: actors with mail, calls, continuations. One queue for
/// all threads, so that nothing starves behind a handler that blocks. First in, first out.
class run_queue {
public:
  /// Takes over one reference to `job`.
  void push(caf::resumable* job) {
    std::lock_guard guard(mutex_);
    jobs_.push_back(job);
    size_.store(jobs_.size(), std::memory_order_seq_cst);
  }

  /// Hands over one reference, or nullptr. Without a lock when the queue is empty.
  caf::resumable* try_pop() {
    if (empty()) return nullptr;
    std::lock_guard guard(mutex_);
    if (jobs_.empty()) return nullptr;
    auto* job = jobs_.front();
    jobs_.pop_front();
    size_.store(jobs_.size(), std::memory_order_seq_cst);
    return job;
  }

  bool empty() const noexcept { return size_.load(std::memory_order_seq_cst) == 0; }

private:
  std::mutex mutex_;
  std::deque<caf::resumable*> jobs_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace troupe
