#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "troupe/messages/memory/payload.hpp"

// Devices whose processes open one another's memory (device_ipc.hpp), as nodes tell one another.
namespace troupe::transport::lending {

struct named_device {
  memory_place place;    ///< in its process
  std::string identity;  ///< on the host
};

/// Those of this process.
std::vector<named_device> devices_that_open();

/// Why memory of this process's device `here` cannot be opened on the device `there` of a process
/// that has `devices`. Empty: it can.
std::string why_not_opened(const memory_place& here, const memory_place& there,
                           const std::vector<named_device>& devices);

std::vector<std::byte> encode(const std::vector<named_device>& devices);

/// Throws decode_error.
std::vector<named_device> decode_devices(std::span<const std::byte> bytes);

}  // namespace troupe::transport::lending
