#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace troupe::transport {

/// What another process may do with the memory of a region. The values travel.
enum class region_access : std::uint16_t { read = 0, write = 1 };

/// What a process needs to map the memory of another one of its host. Travels as it lies; whoever
/// receives one need not trust it.
struct region_address {
  std::array<std::byte, 16> id{};  ///< unique among all regions that ever exist
  std::uint64_t size = 0;          ///< bytes
  /// 32 lower-case hex digits, not terminated: the socket that hands the region's descriptor out.
  std::array<char, 32> socket_name{};

  friend bool operator==(const region_address&, const region_address&) = default;
};
static_assert(sizeof(region_address) == 56 && std::is_trivially_copyable_v<region_address>);

}  // namespace troupe::transport
