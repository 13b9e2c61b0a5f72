#include "troupe/apps/cartpole/state_tensor.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace cartpole {

at::Tensor to_tensor(const observation& seen) {
  at::Tensor result = at::empty({static_cast<std::int64_t>(seen.size())});
  std::copy(seen.begin(), seen.end(), result.mutable_data_ptr<float>());
  return result;
}

}  // namespace cartpole
