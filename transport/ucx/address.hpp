#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "troupe/transport/system/process.hpp"
#include "troupe/transport/transport.hpp"
#include "troupe/transport/ucx/proof.hpp"

namespace troupe::transport::ucx {

/// The address of a node. Encoded with a proof that its writer has the job's key, so that UCX,
/// which trusts addresses blindly, never sees damaged or foreign bytes.
struct address {
  rank_t rank = 0;
  std::uint16_t shape = 0;  ///< index of the best queue_shape that fits its memory
  nonce id{};
  process_identity process;
  std::vector<std::byte> any;      ///< UCX's worker address
  std::vector<std::byte> network;  ///< the same without shared memory; may be empty

  /// Longest that each of the two may be.
  static constexpr std::size_t limit = 16 * 1024;
};

std::vector<std::byte> encode(const address& a, const job_key& key);

/// Throws decode_error when `bytes` are damaged, of another version or made with another key.
address decode(std::span<const std::byte> bytes, const job_key& key);

}  // namespace troupe::transport::ucx
