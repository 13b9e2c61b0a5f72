#include "troupe/transport/tcp/handshake.hpp"

#include <sodium.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace troupe::transport::tcp {

namespace {

static_assert(std::endian::native == std::endian::little, "claims are little-endian as they lie");

constexpr std::uint32_t claim_magic = 0x54707254;  // "TrpT"
constexpr std::uint16_t claim_version = 5;

// A claim as it is sent.
struct wire_claim {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint8_t kind;
  std::uint8_t protection;
  std::uint32_t from;
  std::uint32_t to;
  nonce from_id;
  nonce to_id;
  nonce beside;
};
static_assert(sizeof(wire_claim) == handshake::claim_size);

// Who proves, and for what.
enum role : std::uint8_t {
  dialer_greets = 1,
  listener_responds,
  dialer_answers,
  dialers_key,
  listeners_key,
  connections_name
};

constexpr std::size_t greeted = handshake::claim_size + handshake::challenge_size;
constexpr std::size_t all = greeted + handshake::challenge_size;

static_assert(handshake::challenge_size == key_agreement::size);

bool same(std::span<const std::byte> a, const job_secret::mac& b) {
  return sodium_memcmp(a.data(), b.data(), b.size()) == 0;
}

}  // namespace

stream_keys::~stream_keys() {
  sodium_memzero(from_dialer.data(), from_dialer.size());
  sodium_memzero(from_listener.data(), from_listener.size());
}

handshake::handshake(const job_secret& secret) : key_(secret.subkey("troupe tcp handshake")) {}

job_secret::mac handshake::prove(std::uint8_t role, std::size_t said) const {
  std::array<std::byte, 1 + sizeof(transcript)> covered;
  covered[0] = std::byte{role};
  std::memcpy(covered.data() + 1, said_.data(), said);
  return key_.sign(std::span(covered).first(1 + said));
}

handshake::hello handshake::greet(const stream_claim& claims) {
  wire_claim wire{claim_magic,
                  claim_version,
                  static_cast<std::uint8_t>(claims.kind),
                  static_cast<std::uint8_t>(claims.protection),
                  claims.from,
                  claims.to,
                  claims.from_id,
                  claims.to_id,
                  claims.beside};
  std::memcpy(said_.data(), &wire, sizeof wire);
  const auto half = exchange_.half();
  std::memcpy(said_.data() + claim_size, half.data(), half.size());
  const auto proof = prove(dialer_greets, greeted);
  hello out;
  std::memcpy(out.data(), said_.data(), greeted);
  std::memcpy(out.data() + greeted, proof.data(), proof.size());
  return out;
}

std::optional<stream_claim> handshake::read(std::span<const std::byte, sizeof(hello)> in) {
  std::memcpy(said_.data(), in.data(), greeted);
  if (!same(in.subspan(greeted), prove(dialer_greets, greeted))) return std::nullopt;
  wire_claim wire;
  std::memcpy(&wire, said_.data(), sizeof wire);
  if (wire.magic != claim_magic || wire.version != claim_version) return std::nullopt;
  if (wire.kind > static_cast<std::uint8_t>(stream_kind::bulk)) return std::nullopt;
  if (wire.protection > static_cast<std::uint8_t>(stream_protection::encrypt)) return std::nullopt;
  return stream_claim{wire.from,
                      wire.to,
                      wire.from_id,
                      wire.to_id,
                      static_cast<stream_kind>(wire.kind),
                      static_cast<stream_protection>(wire.protection),
                      wire.beside};
}

handshake::challenge handshake::respond() {
  const auto half = exchange_.half();
  std::memcpy(said_.data() + greeted, half.data(), half.size());
  const auto proof = prove(listener_responds, all);
  challenge out;
  std::memcpy(out.data(), said_.data() + greeted, challenge_size);
  std::memcpy(out.data() + challenge_size, proof.data(), proof.size());
  return out;
}

bool handshake::meet(std::span<const std::byte, sizeof(challenge)> in, answer& out) {
  std::memcpy(said_.data() + greeted, in.data(), challenge_size);
  if (!same(in.subspan(challenge_size), prove(listener_responds, all)) || !agree(greeted))
    return false;
  const auto proof = prove(dialer_answers, all);
  std::memcpy(out.data(), proof.data(), proof.size());
  return true;
}

bool handshake::admit(std::span<const std::byte, sizeof(answer)> in) {
  return same(in, prove(dialer_answers, all)) && agree(claim_size);
}

// The half of the other end begins at `others_challenge`, and is known to be a member's. What a
// replayed hello costs the listener is its own half: some 20 us, as much as accepting does.
bool handshake::agree(std::size_t others_challenge) {
  agreed_ = exchange_.agree(std::span(said_).subspan(others_challenge).first<challenge_size>());
  return agreed_.has_value();
}

stream_keys handshake::keys() const {
  const auto key = [&](role of) { return agreed_.value().sign(prove(of, all)); };
  stream_keys out;
  out.from_dialer = key(dialers_key);
  out.from_listener = key(listeners_key);
  const auto name = key(connections_name);
  std::copy_n(name.begin(), out.connection.size(), out.connection.begin());
  return out;
}

}  // namespace troupe::transport::tcp
