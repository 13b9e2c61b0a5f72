#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "troupe/transport/system/process.hpp"
#include "troupe/transport/system/socket.hpp"
#include "troupe/transport/tcp/handshake.hpp"

namespace troupe::transport::tcp {

/// Where a node listens.
struct place {
  socket_address where;
  std::uint8_t interface = 0;  ///< its number on its host; of named ones, in the order of the names
};

/// Where a node listens: a place for each of its interfaces' addresses.
struct address {
  rank_t rank = 0;
  nonce id{};
  stream_protection protection = stream_protection::off;
  std::uint8_t interfaces = 0;  ///< that were named; 0: all are used, in no order
  std::vector<place> places;
  process_identity process{};

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
  place at;
};

/// The addresses of the interfaces of these names, in that order, IPv4 first; of none: those of all
/// interfaces that are up but the loopback interface's, or the latter's if there is no other.
/// Link-local ones are left out. Throws transport_error for an interface that is not here, is down
/// or has no address.
std::vector<local_place> local_places(const std::vector<std::string>& interfaces);

/// The order in which the places of `there` are tried from a node that listens at `here` and has
/// `interfaces` named ones; indices. If both have named some, those of interface `first`, modulo
/// their number, come first, then those of the next. Otherwise those with the most leading bits in
/// common with a place of `here` come first, since they are likely to be on the same link; the same
/// address comes last, since it is that of another host's bridge, if not of this host.
std::vector<std::size_t> order_of_places(const address& there, std::size_t interfaces,
                                         const std::vector<local_place>& here, std::size_t first);

}  // namespace troupe::transport::tcp
