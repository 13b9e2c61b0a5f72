#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "troupe/transport/transport.hpp"

namespace troupe::transport {

/// Which of UCX's transports a node may use.
enum class ucx_kind : std::uint8_t {
  automatic,      ///< shared memory on one host, the network between hosts
  shared_memory,  ///< shared memory alone; peers on other hosts cannot be added
  tcp,            ///< TCP alone, also on one host
  rdma,           ///< shared memory on one host, RDMA between hosts; never TCP
};

/// How payloads move between processes of one host. Copying through shared memory is two to three
/// times faster while both processes run; reading the sender's memory (process_vm_readv) needs the
/// receiver alone, and stays fast where there are more processes than cores.
enum class ucx_bulk : std::uint8_t {
  automatic,  ///< copies up to `copy_limit`, reads above
  copies,     ///< never reads
  cma,        ///< reads all that does not fit in one piece
};

struct ucx_options {
  rank_t rank = 0;
  ucx_kind kind = ucx_kind::automatic;
  ucx_bulk bulk = ucx_bulk::automatic;
  /// Every process that can reach this host by the network is trusted. UCX's protocol authenticates
  /// no one: a process that can connect to its port can write anywhere in this process. Without
  /// this, no port is opened: peers on other hosts cannot be added, and `ucx_kind::tcp` is refused.
  bool trusted_network = false;
  /// All peers are on this host: no socket listens outside the loopback interface, and none at all
  /// but for `ucx_kind::tcp`.
  bool one_host = false;
  /// About how many other nodes this host will have; determines how much shared memory each may
  /// take.
  unsigned host_peers = 7;
  /// Logs for all nodes of this host when shared memory is scarce.
  bool speaks_for_host = true;
  /// Network interfaces to use and to listen on, separated by commas; empty: all.
  std::string net_devices;
  /// The job's key; messages of nodes without it are dropped.
  std::array<std::byte, 32> key{};
  /// With `ucx_bulk::automatic`, the largest payload that is copied through shared memory; 64 MiB
  /// at most.
  std::size_t copy_limit = 1024 * 1024;
  /// Over a network, payloads of this many bytes and more are received directly into their final
  /// memory; smaller ones are copied once more at the receiver, but need no second round trip.
  std::size_t rendezvous_threshold = 64 * 1024;
  /// How long a silent connection may go unchecked, at most.
  std::chrono::milliseconds keepalive{1000};
  /// How long a peer on the network may be out of reach, or accept nothing of what it is sent,
  /// before it counts as lost; until then broken connections are made again. Make it twice
  /// `keepalive` or more.
  std::chrono::milliseconds tcp_limit{2500};
  /// Further settings of UCX by their names without "UCX_"; they take precedence.
  std::vector<std::pair<std::string, std::string>> settings;
};

/// A node on UCX. `to` and `pool` must outlive it. Throws transport_error when UCX cannot be
/// started with these options, or shared memory is too small.
///
/// Peers on this host are watched through the kernel, so their end is noticed at once; others by
/// UCX, within `tcp_limit`. What a peer over TCP has not acknowledged is kept, payloads by
/// reference, and sent again after a reconnect. A peer that is destroyed or closes the connection
/// sends a leave notice, and counts as lost. A peer that was lost can be added again only as a new
/// process or object, with a new address.
///
/// The destructor drops sends whose payloads have not been sent: call `progress` until `idle()`
/// first.
std::unique_ptr<transport> make_ucx_transport(ucx_options options, sink& to, payload_pool& pool);

/// Why a node with these options and the address `own` cannot reach the one at `other`: "another
/// host"; empty: it can. Throws transport_error when `other` is damaged or of another job.
std::string ucx_apart(const ucx_options& here, std::span<const std::byte> own,
                      std::span<const std::byte> other);

}  // namespace troupe::transport
