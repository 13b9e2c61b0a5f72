#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "troupe/transport/ucx/queue_shape.hpp"
#include "troupe/transport/ucx/ucx_transport.hpp"

namespace troupe::transport::ucx {

/// Throws transport_error "`what`: UCX's reason", and what UCX has written about it, unless
/// `status` is UCS_OK.
void check(ucs_status_t status, const std::string& what);

/// The loss of a connection that UCX gave up.
peer_loss broken(const char* what, ucs_status_t status);

/// The silence after which TCP has given up a connection at the latest, when its peer counts as
/// lost after `limit`. The rest of the time is for reconnect attempts: TCP does not check again
/// after its last probe.
constexpr std::chrono::milliseconds longest_silence(std::chrono::milliseconds limit) {
  return limit * 4 / 5;
}

/// What a worker can be reached by.
enum class reach : std::uint8_t {
  all,           ///< as the options say
  shared_memory  ///< that alone
};

/// A UCX worker, configured for Troupe, with a context of its own: UCX 1.22 deadlocks where several
/// workers of one context send large payloads. Any thread.
class worker {
public:
  /// `shape` is that of its queue in shared memory. Throws transport_error.
  worker(const ucx_options& options, reach by, const queue_shape& shape);
  ~worker();
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  ucp_worker_h get() const noexcept { return worker_; }

  /// Becomes readable as UCX's documentation of ucp_worker_arm says. Lives as long as the worker.
  int event_fd() const noexcept { return event_fd_; }

  /// UCX's address of this worker; `network_only` leaves shared memory out, and may be empty.
  std::vector<std::byte> address(bool network_only) const;

  /// Sets `callback` with `argument` as the handler of `id`; it runs inside ucp_worker_progress.
  void handle(unsigned id, ucp_am_recv_callback_t callback, void* argument);

private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
};

}  // namespace troupe::transport::ucx
