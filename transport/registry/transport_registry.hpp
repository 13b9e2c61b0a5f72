#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/transport/transport.hpp"
#include "troupe/transport/transport_options.hpp"

namespace troupe::transport {

class job_secret;

/// What a factory makes a node's transport from. The references to `to` and `pool` are valid as
/// long as the transport, the other ones during the call. Neither `to` nor `pool` may be used
/// before the first `progress`: they throw transport_error.
struct transport_request {
  rank_t rank = 0;
  std::uint32_t world_size = 0;  ///< of the founders; 0 for a node that joins a running job
  const job_secret& secret;  ///< for authentication: use a `subkey` of it, never the secret itself
  bool trusted_network = false;  ///< no one outside the job can reach the network
  bool one_host = false;         ///< all nodes of the job, later ones included, are on this host
  std::chrono::milliseconds keepalive{1000};  ///< rpc_options::keepalive
  const transport_options& options;
  sink& to;
  payload_pool& pool;
};

/// Makes a transport. `address()` of the result is valid when it returns; the rendezvous gives it
/// to the other nodes (64 KiB at most), and `add_peer` of theirs gets it. A factory throws
/// invalid_argument for options that it does not take and transport_error if the transport cannot
/// work here; all ranks of the job get the text. Called on the thread that founds or joins a job,
/// by several at a time if the program does so.
using transport_factory = std::function<std::unique_ptr<transport>(const transport_request&)>;

/// From now on, jobs of this process can use the transport `name`: lower case letters, digits, '_'
/// and '-', with a letter first. All nodes of a job use the same. Throws invalid_argument for an
/// invalid name, for "ucx", "ucx_tcp", "tcp", "loopback" and "virtual", for a name that is
/// registered, and without a factory. Any thread.
void register_transport(const std::string& name, transport_factory factory);

/// Transports that were made, and calls of the factory that run, go on. False if there was none of
/// that name, or it is Troupe's own. Any thread.
bool unregister_transport(const std::string& name);

/// The factory of `name`; empty if there is none. Any thread.
transport_factory find_transport(const std::string& name);

/// The registered names, sorted. Any thread.
std::vector<std::string> transport_names();

/// Calls the factory of `name`. Throws invalid_argument, which lists the names that there are, if
/// it is not registered, transport_error if the factory returns none, and what the factory throws.
std::unique_ptr<transport> make_transport(const std::string& name,
                                          const transport_request& request);

}  // namespace troupe::transport
