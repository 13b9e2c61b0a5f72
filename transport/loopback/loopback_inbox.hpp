#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <compare>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/envelope/frame.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe::transport::loopback {

// Identifies a transport object: a rank may come back as another one.
struct node_key {
  std::uint32_t magic = 0x6c707254;  // "Trpl"
  rank_t rank = 0;
  std::uint64_t id = 0;

  friend auto operator<=>(const node_key&, const node_key&) = default;
};
static_assert(sizeof(node_key) == 16);

struct envelope_event {
  std::uint64_t sequence;
  std::uint64_t order;
  std::size_t payloads;
  frame bytes;
};

struct payload_event {
  std::uint64_t sequence;
  std::size_t index;
  outgoing_payload payload;
  std::shared_ptr<std::atomic<std::size_t>> pending;  // of the sender

  payload_event(std::uint64_t s, std::size_t i, outgoing_payload&& p,
                std::shared_ptr<std::atomic<std::size_t>> n)
      : sequence(s), index(i), payload(std::move(p)), pending(std::move(n)) {
    pending->fetch_add(1);
  }
  payload_event(payload_event&&) = default;
  payload_event& operator=(payload_event&&) = delete;
  ~payload_event() {
    payload.keep.reset();
    if (pending) pending->fetch_sub(1);
  }
};

struct leave_notice {};

struct event {
  template <class What>
  event(const node_key& sender, What&& happened)
      : from(sender), what(std::forward<What>(happened)) {}

  node_key from;
  std::variant<envelope_event, payload_event, leave_notice> what;
};

// The queue of events from other nodes for one node. Outlives the node.
class inbox {
public:
  inbox() = default;
  ~inbox() {
    if (fd_ >= 0) ::close(fd_);
  }
  inbox(const inbox&) = delete;
  inbox& operator=(const inbox&) = delete;

  // Made at the first call: nodes that are only polled need no descriptor.
  int fd() {
    const std::lock_guard lock(mutex_);
    if (fd_ >= 0) return fd_;
    fd_ = eventfd(signalled_ ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd_ < 0) throw transport_error(std::string("eventfd failed: ") + std::strerror(errno));
    return fd_;
  }

  // False when the node has been destroyed.
  bool put(std::vector<event>&& events) {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    for (auto& e : events) events_.push_back(std::move(e));
    something_.store(true, std::memory_order_release);
    if (armed_) signal();
    return true;
  }

  void take(std::vector<event>& into) {
    // A hint, to poll without the lock: `mutex_` publishes the events, and `arm` looks at these
    // under it. Relaxed would do.
    if (!something_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    into.swap(events_);
    something_.store(false, std::memory_order_release);
    clear();
  }

  bool arm() {
    const std::lock_guard lock(mutex_);
    clear();
    if (!events_.empty() || std::exchange(woken_, false)) return false;
    armed_ = true;
    return true;
  }

  void wake() {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    signal();
  }

  // Registers `watcher`, which gets a leave notice when the node is destroyed. False when it has
  // been.
  bool watch(const std::shared_ptr<inbox>& watcher) {
    const std::lock_guard lock(mutex_);
    if (!closed_) watchers_.push_back(watcher);
    return !closed_;
  }

  // Takes nothing more; returns the watchers that must be notified.
  std::vector<std::weak_ptr<inbox>> close() {
    std::vector<event> dropped;
    const std::lock_guard lock(mutex_);
    closed_ = true;
    dropped.swap(events_);
    return std::move(watchers_);
  }

private:
  void signal() noexcept {
    signalled_ = true;
    if (fd_ >= 0) eventfd_write(fd_, 1);
  }

  void clear() noexcept {
    armed_ = false;
    if (!std::exchange(signalled_, false) || fd_ < 0) return;
    eventfd_t ignored;
    eventfd_read(fd_, &ignored);
  }

  std::mutex mutex_;
  int fd_ = -1;
  bool signalled_ = false;
  std::atomic<bool> something_{false};
  std::vector<event> events_;
  std::vector<std::weak_ptr<inbox>> watchers_;
  bool armed_ = false;
  bool woken_ = false;
  bool closed_ = false;
};

}  // namespace troupe::transport::loopback
