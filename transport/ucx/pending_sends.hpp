#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

#include "troupe/messages/envelope/frame.hpp"
#include "troupe/transport/ucx/peer.hpp"

namespace troupe::transport::ucx {

class pending_sends;

/// What UCX may still read after a send has returned.
struct send_slot {
  frame envelope;
  std::shared_ptr<const void> keep;
  pending_sends* owner = nullptr;
  peer* to = nullptr;
  std::uint64_t connection = 0;  ///< number of the peer's connection, over a network
  // The rest under the owner's mutex.
  bool finished = false;
  send_slot* previous = nullptr;
  send_slot* next = nullptr;
};

/// The sends that UCX has not finished. A send that finishes at once, as small ones do, costs no
/// lock and no allocation here. Thread-safe.
class pending_sends {
public:
  /// `failed` is called for sends that ended with an error, on any thread that calls UCX.
  explicit pending_sends(std::function<void(const send_slot&, ucs_status_t)> failed)
      : failed_(std::move(failed)) {}
  ~pending_sends();
  pending_sends(const pending_sends&) = delete;
  pending_sends& operator=(const pending_sends&) = delete;

  /// A slot for one send, given to `callback` as its user data.
  send_slot* begin(peer& to);

  /// The send has ended within the call: the slot is released, and what it held is dropped.
  static void end(send_slot* slot) noexcept;

  /// UCX continues with the send.
  void wait(send_slot* slot) noexcept;

  /// UCX's callback.
  static void callback(void* request, ucs_status_t status, void* user_data) noexcept;

  /// Drops what finished sends held; returns how many there were. Never while UCX is running.
  unsigned release();

  bool idle() const noexcept { return count_.load(std::memory_order_acquire) == 0; }

private:
  void unlink(send_slot* slot) noexcept;

  std::function<void(const send_slot&, ucs_status_t)> failed_;
  std::mutex mutex_;
  std::atomic<std::size_t> count_{0};
  std::atomic<bool> any_finished_{false};
  send_slot* waiting_ = nullptr;   // doubly linked
  send_slot* finished_ = nullptr;  // linked by `next`
};

}  // namespace troupe::transport::ucx
