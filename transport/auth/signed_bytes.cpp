#include "troupe/transport/auth/signed_bytes.hpp"

#include <cstring>

namespace troupe::transport {

void append_proof(std::vector<std::byte>& bytes, const job_secret& key) {
  const auto proof = key.sign(bytes);
  bytes.insert(bytes.end(), proof.begin(), proof.end());
}

std::optional<std::span<const std::byte>> strip_proof(std::span<const std::byte> bytes,
                                                      const job_secret& key) noexcept {
  if (bytes.size() < proof_size) return {};
  const auto covered = bytes.first(bytes.size() - proof_size);
  job_secret::mac proof;
  std::memcpy(proof.data(), bytes.data() + covered.size(), proof_size);
  if (!key.verify(covered, proof)) return {};
  return covered;
}

}  // namespace troupe::transport
