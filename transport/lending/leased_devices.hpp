#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
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

/// Those of another process, as devices of this one reach them. Any thread.
class reached_devices {
public:
  /// Once, before others ask.
  void set(std::vector<named_device> devices) noexcept { devices_ = std::move(devices); }

  bool empty() const noexcept { return devices_.empty(); }

  /// Why memory of this process's device `here` cannot be opened on its device `there`. Empty: it
  /// can, and the driver is not asked again.
  std::string why_not(const memory_place& here, const memory_place& there) const;

private:
  static constexpr int most_known = 8;  // devices on each side

  std::vector<named_device> devices_;
  mutable std::atomic<std::uint64_t> known_{0};  // a bit for each pair that reaches
};

std::vector<std::byte> encode(const std::vector<named_device>& devices);

/// Throws decode_error.
std::vector<named_device> decode_devices(std::span<const std::byte> bytes);

}  // namespace troupe::transport::lending
