#include "troupe/messages/tensor/device_route.hpp"

#include <c10/core/DeviceType.h>

#include <algorithm>

#include "troupe/messages/base/error.hpp"

namespace troupe {

std::string to_string(const memory_place& place) {
  if (place.where == memory_place::kind::host) return "cpu";
  const auto type = static_cast<c10::DeviceType>(place.where);
  return c10::DeviceTypeName(type, true) + ":" + std::to_string(place.device);
}

device_route::device_route(std::vector<entry> entries, std::string from, std::string to)
    : entries_(std::move(entries)), from_(std::move(from)), to_(std::move(to)) {
  keeps_host_ = std::none_of(entries_.begin(), entries_.end(), [](const entry& e) {
    return e.here.where == memory_place::kind::host;
  });
}

device_route device_route::in_place() {
  device_route out;
  out.in_place_ = true;
  return out;
}

device_route device_route::to_host() {
  device_route out;
  out.to_host_ = true;
  return out;
}

device_route device_route::inverse() const {
  std::vector<entry> turned;
  turned.reserve(entries_.size());
  for (const auto& e : entries_) turned.push_back({e.there, e.here});
  device_route out(std::move(turned), to_, from_);
  out.back_ = !back_;
  out.in_place_ = in_place_;
  return out;
}

memory_place device_route::find(memory_place here) const {
  for (const auto& e : entries_)
    if (e.here == here) return e.there;
  if (to_host_) return {};
  if (in_place_ || here.where == memory_place::kind::host) return here;
  const auto device = to_string(here);
  const auto why = back_ ? " cannot be sent back from '" + from_ + "' to '" + to_ +
                               "': the device map of '" + to_ + "' for '" + from_ +
                               "' does not lead to " + device
                         : " cannot be sent from '" + from_ + "' to '" + to_ + "': '" + from_ +
                               "' has no device map for '" + to_ + "' with " + device;
  throw encode_error("a tensor on " + device + why +
                     "; give one in rpc_options::device_maps, or send a copy in host memory, "
                     "t.cpu()");
}

}  // namespace troupe
