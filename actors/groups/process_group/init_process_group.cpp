#include "troupe/actors/groups/process_group/init_process_group.hpp"

#include "troupe/actors/groups/backend/device_backends.hpp"
#include "troupe/actors/groups/process_group/group_service.hpp"
#include "troupe/actors/node/node.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe {

process_group init_process_group(const std::string& backend, const rpc_options& where,
                                 const group_options& how) {
  if (!how.backend.empty() && how.backend != backend)
    throw invalid_argument("init_process_group: the backend is \"" + backend +
                           "\", and the options name \"" + how.backend + "\": give one of them");
  auto options = how;
  options.backend = backend;
  groups::parse_backends(backend);  // before the others are met
  const auto joined = init_rpc(where);
  auto& core = joined.core();
  return process_group(groups::group_service::of(core).world(options), core.shared_from_this());
}

void destroy_process_group(const process_group& group) {
  const auto limit = group.timeout();
  group.destroy();
  if (const auto node = group.owned_node()) node->shutdown(true, limit);
}

}  // namespace troupe
