#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/lending/leased_devices.hpp"
#include "troupe/transport/lending/parked_loans.hpp"
#include "troupe/transport/regions/descriptor_channel.hpp"
#include "troupe/transport/system/process.hpp"

namespace troupe::transport::lending {

/// A node's address: that of the transport that carries its messages, and who may read its memory.
struct address {
  node_number node{};
  process_identity process;
  bool lends = false;
  region_address region;              ///< if it lends
  std::vector<named_device> devices;  ///< that can open memory of other processes
  std::vector<std::byte> inner;
};

std::vector<std::byte> encode(const address& a, const job_secret& secret);

/// Throws decode_error: `bytes` are damaged, of another job, or of a node that does not know of
/// loans.
address decode(std::span<const std::byte> bytes, const job_secret& secret);

}  // namespace troupe::transport::lending
