#include "troupe/transport/ucx/lanes.hpp"

#include <array>
#include <string_view>

namespace troupe::transport::ucx {

lanes lanes_of(ucp_ep_h ep) {
  std::array<ucp_transport_entry_t, 32> entries{};
  ucp_ep_attr_t attributes{};
  attributes.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS;
  attributes.transports.entries = entries.data();
  attributes.transports.num_entries = entries.size();
  attributes.transports.entry_size = sizeof(ucp_transport_entry_t);
  lanes result;
  if (ucp_ep_query(ep, &attributes) != UCS_OK) {
    result.text = "unknown lanes";
    return result;
  }
  for (unsigned i = 0; i < attributes.transports.num_entries; ++i) {
    const std::string_view name = entries[i].transport_name;
    const std::string lane = std::string(name) + "/" + entries[i].device_name;
    if (name == "posix") result.shared_memory = true;
    if (name == "cma") result.cma = true;
    if (result.text.find(lane) != std::string::npos) continue;
    if (!result.text.empty()) result.text += ", ";
    result.text += lane;
  }
  return result;
}

}  // namespace troupe::transport::ucx
