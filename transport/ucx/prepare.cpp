#include "troupe/transport/ucx/prepare.hpp"

#include <string>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/system/leftovers.hpp"
#include "troupe/transport/ucx/permitted.hpp"
#include "troupe/transport/ucx/queue_shape.hpp"

namespace troupe::transport::ucx {

preparation prepare(ucx_options options) {
  if (options.kind == ucx_kind::tcp && !options.trusted_network)
    throw transport_error(
        "transport 'ucx_tcp' is refused: UCX's TCP port lets any process that can connect to it "
        "write anywhere in this process, without the job's secret. Transport 'tcp' needs no "
        "trust. If no one else can reach the network (on one host: no other user is "
        "there), set rpc_options::trusted_network or TROUPE_TRUSTED_NETWORK=1 on every node");
  preparation made{std::move(options), 0};
  auto& o = made.options;
  if (o.kind == ucx_kind::tcp) return made;
  auto room = look_for_room();
  remove_leftovers(room.folder);
  room = look_for_room();
  const auto number = choose_shape(room, o.host_peers);
  if (number == queue_shapes.size()) {
    const auto need = describe_need(room, o.host_peers, queue_shapes.back());
    if (!uses_network(o) || o.kind == ucx_kind::rdma)
      throw transport_error("there is too little shared memory: " + need);
    log().warn("this host's nodes use TCP: too little shared memory; {}", need);
    o.kind = ucx_kind::tcp;
    return made;
  }
  made.shape = static_cast<std::uint16_t>(number);
  // The first two shapes are equally fast.
  log().log(number > 1 && o.speaks_for_host ? spdlog::level::warn : spdlog::level::debug,
            "queues of {} messages of {} bytes in shared memory: {}", queue_shapes[number].places,
            queue_shapes[number].bytes,
            describe_need(room, o.host_peers, queue_shapes[number > 1 ? 0 : number]));
  return made;
}

}  // namespace troupe::transport::ucx
