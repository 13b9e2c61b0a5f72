#pragma once

#include <ATen/core/Tensor.h>

#include "troupe/apps/cartpole/environment.hpp"

namespace cartpole {

/// `seen` as the float32 tensor [4] that the policy takes.
at::Tensor to_tensor(const observation& seen);

}  // namespace cartpole
