#pragma once

#include <functional>

#include "troupe/transport/ucx/wire.hpp"

namespace troupe::transport::ucx::neighbours {

// The transports of this process. Those that are connected to one another hear of each other's end
// also where a goodbye could not be sent: no end of a process tells them. Thread-safe.

/// There is a transport `id`.
void begin(const nonce& id);

/// `ended` is called, on any thread and under a lock, when `id` ends, unless `who` is unwatched
/// before. False when it has ended.
bool watch(const nonce& id, const void* who, std::function<void()> ended);

/// Nothing that was watched as `who` is called any more.
void unwatch(const void* who);

/// The transport `id` has ended.
void end(const nonce& id);

}  // namespace troupe::transport::ucx::neighbours
