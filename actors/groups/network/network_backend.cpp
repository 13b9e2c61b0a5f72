#include "troupe/actors/groups/network/network_backend.hpp"

#include <utility>

#include "troupe/actors/groups/network/collective.hpp"

namespace troupe::groups::network {

bool network_backend::supports(operation_kind kind, c10::ScalarType dtype,
                               c10::DeviceType device) const noexcept {
  // Of no tensors, a barrier's or an empty list's, the dtype is undefined.
  return device == c10::DeviceType::CPU && !c10::isQIntType(dtype) &&
         kind != operation_kind::send && kind != operation_kind::recv;
}

void network_backend::run(operation& what, const time_limit& limit) {
  if (auto why = channel_->failure()) std::rethrow_exception(std::move(why));
  collective(*channel_, ways_, what, limit).carry_out();
}

}  // namespace troupe::groups::network
