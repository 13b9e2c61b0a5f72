#pragma once

#include <atomic>

#include "troupe/transport/ucx/worker.hpp"

namespace troupe::transport::ucx {

class backend;

/// A UCX worker that receives for a backend, with a queue in shared memory of its own. There is one
/// for all peers, and one for each peer of this host. Its active message handlers get a pointer to
/// it and find the backend there.
struct receive_worker : worker {
  receive_worker(backend& to, const ucx_options& options, reach by, const queue_shape& shape)
      : worker(options, by, shape), owner(&to) {}

  backend* owner;

  unsigned progress() {
    const auto events = ucp_worker_progress(get());
    if (events > 0) touched_.store(true, std::memory_order_relaxed);
    return events;
  }

  /// Has something happened since it was armed? What is armed stays so until then: a receiver that
  /// is woken needs three system calls for each worker to arm it again.
  bool touched() const noexcept { return touched_.load(std::memory_order_relaxed); }

  /// It is armed before the next sleep, whatever comes.
  void touch() noexcept { touched_.store(true, std::memory_order_relaxed); }

  /// `event_fd` tells of the next arrival. False: something has arrived already, and may have been
  /// taken in.
  bool arm() {
    touched_.store(false, std::memory_order_relaxed);
    // The signal of what was taken in is still there when UCX looks for the first time.
    for (int look = 0; look < 2; ++look) {
      if (ucp_worker_arm(get()) != UCS_ERR_BUSY) return true;
      if (progress() > 0) return false;
    }
    touched_.store(true, std::memory_order_relaxed);
    return false;
  }

private:
  std::atomic<bool> touched_{true};
};

}  // namespace troupe::transport::ucx
