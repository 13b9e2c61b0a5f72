#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace troupe::transport {

/// A thread that calls `round` at intervals as long as there is something to do, and `prepare` when
/// asked. Otherwise it sleeps without waking.
class housekeeping {
public:
  struct duties {
    std::function<bool()> round;  ///< returns whether another one is needed
    std::function<bool()> is_needed;
    std::function<void()> prepare;
  };

  /// Throws std::system_error.
  housekeeping(std::chrono::milliseconds interval, duties what);
  /// Waits for what is being done.
  ~housekeeping();
  housekeeping(const housekeeping&) = delete;
  housekeeping& operator=(const housekeeping&) = delete;

  /// A round may be needed now. Hot path: one load.
  void notice() noexcept {
    if (asleep_.load(std::memory_order_relaxed)) [[unlikely]]
      wake(false);
  }
  void prepare_soon() noexcept { wake(true); }

private:
  void wake(bool to_prepare) noexcept;
  void run();

  const std::chrono::milliseconds interval_;
  const duties duties_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> asleep_{false};
  bool prepare_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace troupe::transport
