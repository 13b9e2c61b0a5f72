#include "troupe/transport/regions/descriptor_handshake.hpp"

#include <span>

namespace troupe::transport {

namespace {

constexpr std::uint32_t descriptor_magic = 0x44707254;  // "TrpD"
constexpr std::uint16_t descriptor_version = 2;

// Who proves.
enum descriptor_role : std::uint8_t { descriptor_server_role = 1, descriptor_client_role };

}  // namespace

const char* to_string(refusal_cause why) noexcept {
  switch (why) {
    case refusal_cause::other_user: return "it belongs to another user";
    case refusal_cause::busy: return "too many connect at once";
    case refusal_cause::malformed: return "it sent what is no message of this protocol";
    case refusal_cause::other_version: return "it is of another version of Troupe";
    case refusal_cause::other_region: return "it wants memory that is not served here";
    case refusal_cause::no_secret: return "it does not have the job's secret";
    case refusal_cause::too_slow: return "it took too long";
    case refusal_cause::left: return "it closed the connection";
    case refusal_cause::not_sent: return "the descriptor could not be sent";
    case refusal_cause::read_only: return "the memory can be read only";
  }
  return "for an unknown reason";
}

job_secret descriptor_handshake::key(const job_secret& secret) {
  return secret.subkey("troupe descriptor channel");
}

descriptor_handshake::refusal descriptor_handshake::refuse(refusal_cause why) noexcept {
  return {descriptor_magic, descriptor_version, why};
}

bool descriptor_handshake::is_refusal(const refusal& in) noexcept {
  const auto number = static_cast<std::size_t>(in.why);
  return in.magic == descriptor_magic && number >= 1 && number <= refusal_causes;
}

descriptor_handshake::descriptor_handshake(const job_secret& key, const region_address& region)
    : key_(key), said_{{}, {}, region, {}, {}} {}

descriptor_handshake::hello descriptor_handshake::greet(region_access wanted) {
  said_.wanted = wanted;
  random_bytes(said_.client);
  return {descriptor_magic, descriptor_version, wanted, said_.region.id, said_.client};
}

bool descriptor_handshake::read(const hello& in, refusal_cause& why) noexcept {
  if (in.magic != descriptor_magic)
    why = refusal_cause::malformed;
  else if (in.version != descriptor_version)
    why = refusal_cause::other_version;
  else if (in.id != said_.region.id)
    why = refusal_cause::other_region;
  else if (in.access != region_access::read && in.access != region_access::write)
    why = refusal_cause::malformed;
  else {
    said_.wanted = in.access;
    said_.client = in.challenge;
    return true;
  }
  return false;
}

descriptor_handshake::challenge descriptor_handshake::respond() {
  random_bytes(said_.server);
  const auto said = said_by(descriptor_server_role);
  return {said_.server, key_.sign(std::as_bytes(std::span(&said, 1)))};
}

bool descriptor_handshake::meet(const challenge& in, answer& out) {
  said_.server = in.bytes;
  const auto theirs = said_by(descriptor_server_role);
  if (!key_.verify(std::as_bytes(std::span(&theirs, 1)), in.proof)) return false;
  const auto mine = said_by(descriptor_client_role);
  out.proof = key_.sign(std::as_bytes(std::span(&mine, 1)));
  return true;
}

bool descriptor_handshake::admit(const answer& in) const noexcept {
  const auto said = said_by(descriptor_client_role);
  return key_.verify(std::as_bytes(std::span(&said, 1)), in.proof);
}

descriptor_handshake::transcript descriptor_handshake::said_by(std::uint8_t role) const noexcept {
  auto out = said_;
  out.role[0] = std::byte{role};
  return out;
}

}  // namespace troupe::transport
