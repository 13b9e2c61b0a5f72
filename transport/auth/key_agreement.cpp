#include "troupe/transport/auth/key_agreement.hpp"

#include <sodium.h>

namespace troupe::transport {

namespace {

static_assert(crypto_scalarmult_BYTES == key_agreement::size);
static_assert(crypto_scalarmult_SCALARBYTES == job_secret::size);

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

key_agreement::public_key key_agreement::half() const noexcept {
  public_key out;
  crypto_scalarmult_base(reinterpret_cast<unsigned char*>(out.data()), raw(private_.bytes()));
  return out;
}

std::optional<job_secret> key_agreement::agree(
    std::span<const std::byte, size> others_half) const noexcept {
  std::array<std::byte, size> shared;
  const bool good = crypto_scalarmult(reinterpret_cast<unsigned char*>(shared.data()),
                                      raw(private_.bytes()), raw(others_half)) == 0;
  std::optional<job_secret> out;
  if (good) out = job_secret::from_bytes(shared);
  sodium_memzero(shared.data(), shared.size());
  return out;
}

}  // namespace troupe::transport
