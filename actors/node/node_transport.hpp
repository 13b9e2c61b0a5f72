#pragma once

#include <cstddef>
#include <memory>

#include "troupe/actors/messaging/deferred_sink.hpp"
#include "troupe/actors/node/options.hpp"
#include "troupe/transport/rendezvous/rendezvous.hpp"
#include "troupe/transport/transport.hpp"

// The transport that a node's options ask for: Troupe's own, or one that the program has
// registered.
namespace troupe::detail {

/// The transport of a founder, once it knows the others' hosts and before addresses are exchanged.
/// Throws transport_error, also where UCX alone would have to use an untrusted network, and
/// invalid_argument.
std::unique_ptr<transport::transport> founders_transport(const transport::pre_roster& known,
                                                         const rpc_options& options,
                                                         deferred_sink& parts);

/// The transport of a node that joins a running job. `open` becomes the number of file descriptors
/// that it has opened. Throws the same.
std::unique_ptr<transport::transport> joiners_transport(transport::rank_t rank,
                                                        const transport::job_secret& secret,
                                                        bool one_host, const rpc_options& options,
                                                        deferred_sink& parts, std::size_t& open);

/// Throws transport_error when the limit of file descriptors is too low for `peers` peers; `open`
/// of their descriptors are open already.
void need_descriptors_of(const rpc_options& options, std::size_t peers, std::size_t open);

}  // namespace troupe::detail
