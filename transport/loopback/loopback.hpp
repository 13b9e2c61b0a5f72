#pragma once

#include <memory>

#include "troupe/transport/transport.hpp"

namespace troupe::transport {

class loopback_node;

/// Connects nodes of one process. Thread-safe; any number of nodes, one per rank at a time.
class loopback_network {
public:
  loopback_network();
  ~loopback_network();
  loopback_network(const loopback_network&) = delete;
  loopback_network& operator=(const loopback_network&) = delete;

private:
  friend class loopback_node;
  struct state;
  std::unique_ptr<state> state_;
};

/// A node on `network`. `to` and `pool` must outlive it. The sender copies payloads into memory of
/// the receiver's pool, so that nodes share no memory. A node that is destroyed, or closes the
/// connection, is lost to its peers. Throws invalid_argument when `rank` is taken.
std::unique_ptr<transport> make_loopback_transport(std::shared_ptr<loopback_network> network,
                                                   rank_t rank, sink& to, payload_pool& pool);

}  // namespace troupe::transport
