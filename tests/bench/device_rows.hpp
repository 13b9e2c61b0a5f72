#pragma once

#include <troupe/troupe.hpp>

namespace troupe::bench {

/// Brings libtorch's part for GPUs into this process, if it is here. Tensors on the first GPU then
/// go from rank 0 to the first GPU of rank 1.
rpc_options gpu_options();

}  // namespace troupe::bench
