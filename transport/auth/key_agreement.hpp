#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "troupe/transport/auth/job_secret.hpp"

namespace troupe::transport {

/// One end of an exchange by which two ends come to share a key that nobody who hears them has, and
/// that nobody can compute afterwards: X25519 (RFC 7748), by libsodium. Proves nothing: what each
/// end says must be authenticated. For one connection; the private half is wiped at the end.
class key_agreement {
public:
  static constexpr std::size_t size = 32;
  using public_key = std::array<std::byte, size>;

  /// Draws a new private half.
  key_agreement() = default;

  /// What the other end must get.
  public_key half() const noexcept;

  /// What both ends have then; nothing for a half with which everybody would know it.
  std::optional<job_secret> agree(std::span<const std::byte, size> others_half) const noexcept;

private:
  job_secret private_;
};

}  // namespace troupe::transport
