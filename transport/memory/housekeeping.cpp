#include "troupe/transport/memory/housekeeping.hpp"

#include <utility>

#include "troupe/messages/base/quiet_thread.hpp"

namespace troupe::transport {

housekeeping::housekeeping(std::chrono::milliseconds interval, duties what)
    : interval_(interval), duties_(std::move(what)) {
  thread_ = start_quiet_thread("troupe-memory", [this] { run(); });
}

housekeeping::~housekeeping() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void housekeeping::wake(bool to_prepare) noexcept {
  {
    const std::lock_guard lock(mutex_);
    asleep_.store(false, std::memory_order_relaxed);
    prepare_ = prepare_ || to_prepare;
  }
  changed_.notify_one();
}

void housekeeping::run() {
  std::unique_lock lock(mutex_);
  auto next = std::chrono::steady_clock::now() + interval_;
  bool needed = true;
  while (!stop_) {
    if (std::exchange(prepare_, false)) {
      needed = true;
      lock.unlock();
      duties_.prepare();
      lock.lock();
    } else if (!needed) {
      // First asleep, then the last look: what is freed after that look finds the thread asleep.
      asleep_.store(true, std::memory_order_relaxed);
      lock.unlock();
      needed = duties_.is_needed();
      lock.lock();
      if (needed) asleep_.store(false, std::memory_order_relaxed);
      changed_.wait(lock,
                    [&] { return stop_ || prepare_ || !asleep_.load(std::memory_order_relaxed); });
      needed = true;
      next = std::chrono::steady_clock::now() + interval_;
    } else if (changed_.wait_until(lock, next, [&] { return stop_ || prepare_; })) {
      continue;
    } else {
      lock.unlock();
      needed = duties_.round();
      lock.lock();
      next = std::chrono::steady_clock::now() + interval_;
    }
  }
}

}  // namespace troupe::transport
