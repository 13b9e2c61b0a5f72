#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/memory/pending_bytes.hpp"

namespace troupe {

class peer;

/// Messages that wait for devices to write their bytes, so that their senders need not. Those of
/// one lane leave in the order in which they were added. A thread, started with the first one,
/// looks after them while there are any, and sleeps otherwise. Thread-safe.
class late_sends {
public:
  /// Messages to one node with the same number, which is not 0, must not overtake each other.
  struct lane {
    const peer* to = nullptr;
    std::uint64_t order = 0;
  };

  class message {
  public:
    message(const lane& in, std::unique_ptr<pending_bytes> bytes)
        : lane_(in), bytes_(std::move(bytes)) {}
    virtual ~message() = default;

    /// All is there.
    virtual void send() noexcept = 0;
    /// Instead of `send`: a device has failed.
    virtual void fail(const fault& why) noexcept = 0;

  private:
    friend class late_sends;

    const lane lane_;
    std::unique_ptr<pending_bytes> bytes_;  // null: waits for those before it
  };

  late_sends() = default;
  /// Pre: none is left.
  ~late_sends();
  late_sends(const late_sends&) = delete;
  late_sends& operator=(const late_sends&) = delete;

  /// Before `add`. False: no thread can be had.
  bool start() noexcept;
  void add(std::unique_ptr<message> one);

  /// Does a message wait that one of this lane must not overtake? Hot path: an atomic load where
  /// none does. One that the calling thread has added, or that was added before something that it
  /// knows of, is seen.
  bool any_in(const lane& of) const noexcept { return of.order != 0 && any() && finds(of); }
  /// Blocks until those have been sent that wait now.
  void wait_for(const lane& of);
  bool any() const noexcept { return count_.load(std::memory_order_acquire) != 0; }

private:
  using key = std::pair<const peer*, std::uint64_t>;

  static key key_of(const lane& of) noexcept { return {of.to, of.order}; }
  bool finds(const lane& of) const noexcept;
  void look_after();
  bool send_one();
  void forget(const lane& of);

  // With the one that is being sent: those behind it must not overtake it.
  std::atomic<std::size_t> count_{0};
  mutable std::mutex mutex_;
  std::condition_variable added_, sent_;
  std::vector<std::unique_ptr<message>> fresh_;  // the thread has yet to take them
  // By lane that has an order the numbers of its messages, the oldest first.
  std::map<key, std::deque<std::uint64_t>> lanes_;
  std::uint64_t numbered_ = 0;
  bool stops_ = false;
  std::thread thread_;

  std::deque<std::unique_ptr<message>> waiting_;  // the thread's, the oldest first
};

}  // namespace troupe
