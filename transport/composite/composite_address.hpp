#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "troupe/transport/auth/job_secret.hpp"

namespace troupe::transport::composite {

/// The addresses of one node.
struct address {
  std::vector<std::byte> ucx;  ///< empty: it has none
  std::vector<std::byte> tcp;

  /// Longest that each may be.
  static constexpr std::size_t limit = 48 * 1024;
};

/// With a proof that its writer has the secret. Throws transport_error when one of them is too
/// long.
std::vector<std::byte> encode(const address& a, const job_secret& secret);

/// Throws decode_error when `bytes` are damaged, or made with another secret.
address decode(std::span<const std::byte> bytes, const job_secret& secret);

}  // namespace troupe::transport::composite
