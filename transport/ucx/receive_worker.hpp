#pragma once

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

  unsigned progress() { return ucp_worker_progress(get()); }
};

}  // namespace troupe::transport::ucx
