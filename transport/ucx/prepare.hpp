#pragma once

#include <cstdint>

#include "troupe/transport/ucx/ucx_transport.hpp"

namespace troupe::transport::ucx {

/// Decided before UCX starts.
struct preparation {
  ucx_options options;
  std::uint16_t shape = 0;  ///< number of the best queue_shape that fits
};

/// Refuses what is not safe, removes the segments that ended processes have left in shared memory,
/// and measures how much room there is. Throws transport_error.
preparation prepare(ucx_options options);

}  // namespace troupe::transport::ucx
