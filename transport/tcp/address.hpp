#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "troupe/transport/store/tcp/tcp_store_socket.hpp"
#include "troupe/transport/tcp/handshake.hpp"

namespace troupe::transport::tcp {

/// Where a node listens: one address for each of its interfaces' addresses.
struct address {
  rank_t rank = 0;
  nonce id{};
  stream_protection protection = stream_protection::off;
  std::vector<socket_address> places;

  /// The most places that one node may have.
  static constexpr std::size_t most_places = 64;
};

/// With a proof that its writer has the secret.
std::vector<std::byte> encode(const address& a, const job_secret& secret);

/// Throws decode_error when `bytes` are damaged, of another version or made with another secret.
address decode(std::span<const std::byte> bytes, const job_secret& secret);

/// An address of this host and the interface that has it.
struct local_place {
  std::string interface;
  socket_address where;
};

/// The addresses of the interfaces of these names, in that order, IPv4 first; of none: those of all
/// interfaces that are up but the loopback interface's, or the latter's if there is no other.
/// Link-local ones are left out. Throws transport_error for an interface that is not here, is down
/// or has no address.
std::vector<local_place> local_places(const std::vector<std::string>& interfaces);

}  // namespace troupe::transport::tcp
