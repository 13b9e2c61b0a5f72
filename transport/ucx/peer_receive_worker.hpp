#pragma once

#include "troupe/transport/ucx/worker.hpp"

namespace troupe::transport::ucx {

class backend;

/// A worker with what its callbacks need. Each has a queue in shared memory of its own.
struct queue {
  queue(backend& to, const ucx_options& options, reach by, const queue_shape& shape)
      : owner(&to), from(options, by, shape) {}

  backend* owner;
  worker from;

  unsigned progress() { return ucp_worker_progress(from.get()); }
};

}  // namespace troupe::transport::ucx
