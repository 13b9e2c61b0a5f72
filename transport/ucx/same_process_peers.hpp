#pragma once

#include <functional>

#include "troupe/transport/ucx/wire.hpp"

namespace troupe::transport::ucx::same_process_peers {

// The transports of this process. Connected ones notify each other of their end even where no leave
// notice could be sent: no end of a process shows it. Thread-safe.

/// Transport `id` exists.
void begin(const nonce& id);

/// `ended` is called, on any thread and under a lock, when `id` ends, unless `who` is unwatched
/// before. False when it has ended.
bool watch(const nonce& id, const void* who, std::function<void()> ended);

/// Removes what was watched as `who`.
void unwatch(const void* who);

/// The transport `id` has ended.
void end(const nonce& id);

}  // namespace troupe::transport::ucx::same_process_peers
