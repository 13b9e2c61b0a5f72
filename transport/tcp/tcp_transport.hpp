#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/auth/stream_protection.hpp"
#include "troupe/transport/delivery/reassembly.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe::transport {

/// The ports that a node may listen on; 0 to 0: any.
struct port_range {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

struct tcp_options {
  rank_t rank = 0;
  /// Of the job, or a subkey of its secret.
  job_secret secret;
  stream_protection protection = stream_protection::authenticate;
  /// Large payloads that can be frozen are authenticated where they lie; otherwise a copy is, chunk
  /// by chunk. Then a write to such a tensor while it is sent copies all of it.
  bool freezes_payloads = false;
  /// Names of interfaces ("eth0"), on all addresses of which the node listens; empty: all that are
  /// up, without the loopback interface unless there is no other. The n-th interface of one node
  /// speaks to the n-th of another, and the streams of a peer are divided among them; all nodes
  /// that name some name the same number.
  std::vector<std::string> interfaces;
  port_range ports;
  /// Streams to each peer for payloads of `bulk_threshold` bytes and more, and for what of a
  /// message's payloads from 4 KiB on is more than twice that in all.
  unsigned bulk_streams = 2;
  std::size_t bulk_threshold = 64 * 1024;
  /// Threads that write and read chunks on these streams: the progressing one, and with 2 another
  /// one, which keeps a core busy while payloads stream.
  unsigned chunk_threads = 1;
  /// Payloads on these streams wait while so many of the messages before are not acknowledged. At
  /// most what a peer takes.
  std::uint64_t window = reassembly::window;
  /// How long a silent connection may go unchecked.
  std::chrono::milliseconds keepalive{1000};
  /// How long a peer may be out of reach, or accept nothing of what it is sent, before it counts as
  /// lost; until then broken connections are made again.
  std::chrono::milliseconds limit{2500};
  /// Two nodes of which one has a lower rank than this are connected once they know each other;
  /// others when one of them sends to the other. The end of a peer on another host is noticed on a
  /// connection, or when one is made.
  rank_t eager_below = 1;
  /// Why TCP is used, for `routes()`.
  std::string reason = "TCP was asked for";
};

/// A node on TCP. `to` and `pool` must outlive it. Throws transport_error when it cannot listen.
///
/// Each connection begins with a handshake (tcp/handshake.hpp) in which both ends prove that they
/// have the job's secret and which nodes they are; nothing else is read before. Its keys last as
/// long as the connection: who learns the secret later cannot read what was recorded. A peer has
/// one connection for messages and small payloads, and `bulk_streams` for larger ones, which are
/// received straight into memory of `pool`. What a peer has not acknowledged is kept, payloads by
/// reference, and sent again on a new connection.
///
/// The destructor drops what has not arrived: call `progress` until `delivered()` first.
std::unique_ptr<transport> make_tcp_transport(tcp_options options, sink& to, payload_pool& pool);

}  // namespace troupe::transport
