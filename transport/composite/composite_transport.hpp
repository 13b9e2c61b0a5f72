#pragma once

#include <memory>

#include "troupe/transport/tcp/tcp_transport.hpp"
#include "troupe/transport/transport.hpp"
#include "troupe/transport/ucx/ucx_transport.hpp"

namespace troupe::transport {

/// A node that reaches the nodes of its own host by UCX's shared memory, and those of other hosts
/// by TCP whose ends prove themselves; or by UCX's RDMA, if the network is trusted and both nodes
/// have such devices. `routes()` says for each peer which it is, and why. Where UCX cannot start,
/// for want of shared memory, all peers are reached by TCP, and a warning says so.
///
/// `ucx.kind` is chosen here; `ucx.one_host` must be false. `to` and `pool` must outlive it. Throws
/// transport_error when TCP cannot listen.
std::unique_ptr<transport> make_composite_transport(ucx_options ucx, tcp_options tcp, sink& to,
                                                    payload_pool& pool);

}  // namespace troupe::transport
