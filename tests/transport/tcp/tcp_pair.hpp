#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/transport/conformance/conformance_node.hpp"
#include "troupe/transport/tcp/tcp_transport.hpp"

namespace troupe::transport::test {

/// Ranks 0 and 1 over TCP on this host, added to one another. Payloads from 1 KiB on go over
/// streams of their own.
struct tcp_pair {
  explicit tcp_pair(unsigned bulk_streams = tcp_options().bulk_streams,
                    std::uint64_t window = tcp_options().window, unsigned chunk_threads = 1) {
    const job_secret secret;
    tcp_options o;
    o.secret = secret;
    o.interfaces = {"lo"};
    o.bulk_threshold = 1024;
    o.bulk_streams = bulk_streams;
    o.window = window;
    o.chunk_threads = chunk_threads;
    o.rank = 0;
    a.net = make_tcp_transport(o, a.received, a.pool);
    o.rank = 1;
    b.net = make_tcp_transport(o, b.received, b.pool);
    a->add_peer(1, b->address());
    b->add_peer(0, a->address());
  }

  node a, b;
};

/// A message with one payload, both patterned by `seed`.
inline void send_payload(node& from, rank_t to, std::size_t size, std::uint64_t seed) {
  std::vector<outgoing_payload> payloads;
  payloads.push_back(patterned_payload(size, seed));
  from->send(to, 1, patterned_frame(8, seed), std::move(payloads));
}

}  // namespace troupe::transport::test
