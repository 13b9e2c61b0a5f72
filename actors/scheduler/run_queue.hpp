#pragma once

#include <atomic>
#include <caf/resumable.hpp>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace troupe {

/// Work that any thread of a node may take: actors with messages, calls, continuations. One queue
/// for all threads, so that nothing starves behind a handler that blocks. First in, first out;
/// urgent items before all others.
class run_queue {
public:
  /// Takes over one reference to `item`.
  void push(caf::resumable* item, bool urgent = false) {
    std::lock_guard guard(mutex_);
    (urgent ? urgent_ : items_).push_back(item);
    count();
  }

  /// Hands over one reference, or nullptr. Without a lock when the queue is empty.
  caf::resumable* try_pop() {
    if (empty()) return nullptr;
    std::lock_guard guard(mutex_);
    auto& from = urgent_.empty() ? items_ : urgent_;
    if (from.empty()) return nullptr;
    auto* item = from.front();
    from.pop_front();
    count();
    return item;
  }

  /// Does `is` hold for any of them? It is called under the queue's lock.
  bool any(const std::function<bool(caf::resumable&)>& is) const {
    std::lock_guard guard(mutex_);
    for (const auto* from : {&urgent_, &items_})
      for (auto* item : *from)
        if (is(*item)) return true;
    return false;
  }

  /// Hands over all for which `is` holds. It is called under the queue's lock.
  std::vector<caf::resumable*> take(const std::function<bool(caf::resumable&)>& is) {
    std::vector<caf::resumable*> out;
    std::lock_guard guard(mutex_);
    for (auto* from : {&urgent_, &items_})
      std::erase_if(*from, [&](caf::resumable* item) {
        const bool taken = is(*item);
        if (taken) out.push_back(item);
        return taken;
      });
    count();
    return out;
  }

  // Sequentially consistent, as leader_role is: a thread that pushes counts the item and then looks
  // for a sleeper; a thread that goes to sleep says so and then looks here. One of the two sees the
  // other.
  bool empty() const noexcept { return size_.load(std::memory_order_seq_cst) == 0; }

private:
  void count() { size_.store(items_.size() + urgent_.size(), std::memory_order_seq_cst); }

  mutable std::mutex mutex_;
  std::deque<caf::resumable*> items_;
  std::deque<caf::resumable*> urgent_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace troupe
