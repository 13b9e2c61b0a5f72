#pragma once

#include "transport/ucx/wire.hpp"

namespace troupe::transport::ucx {

class backend;
struct peer;

/// The transports of this process. Those that are connected to one another hear of each other's end
/// also where a goodbye could not be sent: no end of a process tells them. Thread-safe.
namespace neighbours {

void begin(const nonce& id);

/// `who` hears from now on of the end of `id`, as a loss of `about`. False when that has ended.
bool watch(const nonce& id, backend& who, peer& about);

/// `who` hears nothing any more; or nothing about `about`.
void unwatch(const backend& who);
void unwatch(const peer& about);

/// The transport `id` has ended.
void end(const nonce& id);

}  // namespace neighbours

}  // namespace troupe::transport::ucx
