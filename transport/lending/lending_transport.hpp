#pragma once

#include <functional>
#include <memory>

#include "troupe/transport/lending/lending_options.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe::transport {

/// A transport whose payloads travel without a copy where both ends are on one host: what is sent
/// is where they lie, in memory that the other process has mapped readable. Everything else goes
/// through `make_inner`'s transport, and behind each of its envelopes a note of what is lent, what
/// returns, and which loans have ended. Ends of loans travel with the next message, or alone soon
/// after.
///
/// Threads as for any transport. `add_peer` asks the peer's process for its memory, half a second
/// at most.
std::unique_ptr<transport> make_lending_transport(
    lending_options options,
    const std::function<std::unique_ptr<transport>(sink&, payload_pool&)>& make_inner, sink& to,
    payload_pool& pool);

}  // namespace troupe::transport
