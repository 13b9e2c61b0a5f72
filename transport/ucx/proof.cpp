#include "troupe/transport/ucx/proof.hpp"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport::ucx {

namespace {

static_assert(crypto_auth_BYTES == 32 && crypto_auth_KEYBYTES == 32);

const unsigned char* raw(const std::byte* p) { return reinterpret_cast<const unsigned char*>(p); }
unsigned char* raw(std::byte* p) { return reinterpret_cast<unsigned char*>(p); }

std::span<const std::byte> covered(const hello_header& hello) {
  return std::as_bytes(std::span(&hello, 1)).first(offsetof(hello_header, proof));
}

}  // namespace

void start_proofs() {
  if (sodium_init() < 0) throw transport_error("libsodium could not be started");
}

nonce make_nonce() {
  nonce n;
  randombytes_buf(n.data(), n.size());
  return n;
}

proof prove(const job_key& key, const char* purpose, std::span<const std::byte> bytes) {
  crypto_auth_hmacsha512256_state state;
  crypto_auth_hmacsha512256_init(&state, raw(key.data()), key.size());
  // The terminating zero separates purpose and bytes.
  crypto_auth_hmacsha512256_update(&state, reinterpret_cast<const unsigned char*>(purpose),
                                   std::strlen(purpose) + 1);
  crypto_auth_hmacsha512256_update(&state, raw(bytes.data()), bytes.size());
  proof p;
  crypto_auth_hmacsha512256_final(&state, raw(p.data()));
  return p;
}

bool proven(const job_key& key, const char* purpose, std::span<const std::byte> bytes,
            std::span<const std::byte, 32> given) {
  const proof right = prove(key, purpose, bytes);
  return sodium_memcmp(right.data(), given.data(), right.size()) == 0;
}

hello_header make_hello(const job_key& key, rank_t from, const nonce& from_nonce, rank_t to,
                        const nonce& to_nonce, bool wants_acknowledgements) {
  hello_header h{hello_magic, wire_version, wants_acknowledgements, from, to, from_nonce, to_nonce,
                 {}};
  h.proof = prove(key, "troupe hello", covered(h));
  return h;
}

bool genuine(const job_key& key, const hello_header& hello) {
  return hello.magic == hello_magic && hello.version == wire_version &&
         proven(key, "troupe hello", covered(hello), hello.proof);
}

namespace {

proof prove_worker_address(const job_key& key, std::uint64_t token,
                           std::span<const std::byte> address) {
  std::vector<std::byte> covered(sizeof token + address.size());
  std::memcpy(covered.data(), &token, sizeof token);
  std::ranges::copy(address, covered.begin() + sizeof token);
  return prove(key, "troupe way", covered);
}

}  // namespace

std::vector<std::byte> sign_worker_address(const job_key& key, std::uint64_t token,
                                           std::span<const std::byte> address) {
  const proof p = prove_worker_address(key, token, address);
  std::vector<std::byte> way(sizeof p + address.size());
  std::memcpy(way.data(), p.data(), sizeof p);
  std::ranges::copy(address, way.begin() + sizeof p);
  return way;
}

std::span<const std::byte> verify_worker_address(const job_key& key, std::uint64_t token,
                                                 std::span<const std::byte> way) {
  if (way.size() < sizeof(proof)) return {};
  const auto address = way.subspan(sizeof(proof));
  const proof right = prove_worker_address(key, token, address);
  return sodium_memcmp(right.data(), way.data(), right.size()) == 0 ? address
                                                                    : std::span<const std::byte>{};
}

std::uint64_t token(const job_key& key, const nonce& from, const nonce& to) {
  std::array<std::byte, sizeof(nonce) * 2> both;
  std::memcpy(both.data(), from.data(), from.size());
  std::memcpy(both.data() + from.size(), to.data(), to.size());
  const proof p = prove(key, "troupe token", both);
  std::uint64_t t;
  std::memcpy(&t, p.data(), sizeof t);
  return t;
}

}  // namespace troupe::transport::ucx
