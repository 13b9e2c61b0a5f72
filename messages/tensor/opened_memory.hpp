#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "troupe/messages/memory/payload.hpp"
#include "troupe/messages/tensor/device_ipc.hpp"

// Allocations of other processes that are open in this one. To open and close them costs more than
// to copy from them, so that some stay open while nobody uses them.
namespace troupe::detail {

/// The allocation that `handle` names, on the device `on`; the same one for all who use it. Throws
/// transport_error: it cannot be opened, or devices of that type have no device_ipc. Any thread.
std::shared_ptr<const opened_memory> open_memory(const memory_place& on,
                                                 std::span<const std::byte> handle);

/// Closes what nobody uses, and what is used now as soon as nobody does: its owner may be gone.
void close_unused_memory() noexcept;

/// How many are open, in use or not.
std::size_t opened_allocations() noexcept;

}  // namespace troupe::detail
