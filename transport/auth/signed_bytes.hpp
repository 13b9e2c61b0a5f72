#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "troupe/transport/auth/job_secret.hpp"

namespace troupe::transport {

/// The bytes that a proof takes at the end of what it covers.
inline constexpr std::size_t proof_size = std::tuple_size_v<job_secret::mac>;

/// Adds the proof that whoever wrote `bytes` has the secret.
void append_proof(std::vector<std::byte>& bytes, const job_secret& key);

/// What the proof at the end of `bytes` covers; nothing if `key` has not made that proof, or there
/// is none.
std::optional<std::span<const std::byte>> strip_proof(std::span<const std::byte> bytes,
                                                      const job_secret& key) noexcept;

}  // namespace troupe::transport
