#include "troupe/transport/lending/lending_address.hpp"

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/auth/signed_bytes.hpp"

namespace troupe::transport::lending {

namespace {

constexpr std::uint32_t address_magic = 0x4c707254;  // "TrpL"
constexpr std::uint32_t address_version = 1;

// The devices follow, then the inner address, then the proof.
struct address_head {
  std::uint32_t magic;
  std::uint32_t version;
  node_number node;
  process_identity process;
  std::uint32_t lends;
  std::uint32_t inner_size;
  std::uint32_t devices_size;
  std::uint32_t unused;
  region_address region;
};
static_assert(std::is_trivially_copyable_v<address_head>);

job_secret address_key(const job_secret& secret) { return secret.subkey("troupe lending address"); }

}  // namespace

std::vector<std::byte> encode(const address& a, const job_secret& secret) {
  address_head head{};
  head.magic = address_magic;
  head.version = address_version;
  head.node = a.node;
  head.process = a.process;
  head.lends = a.lends ? 1 : 0;
  head.inner_size = static_cast<std::uint32_t>(a.inner.size());
  head.region = a.region;
  const auto devices = encode(a.devices);
  head.devices_size = static_cast<std::uint32_t>(devices.size());
  std::vector<std::byte> out(sizeof head);
  std::memcpy(out.data(), &head, sizeof head);
  out.insert(out.end(), devices.begin(), devices.end());
  out.insert(out.end(), a.inner.begin(), a.inner.end());
  append_proof(out, address_key(secret));
  return out;
}

address decode(std::span<const std::byte> bytes, const job_secret& secret) {
  address_head head;
  if (bytes.size() < sizeof head + proof_size) throw decode_error("an address is too short");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != address_magic || head.version != address_version)
    throw decode_error(
        "this is the address of a node that shares no memory: all nodes of a job must have the "
        "same "
        "rpc_options::hand_over_tensors and lend_tensors");
  const auto covered = strip_proof(bytes, address_key(secret));
  if (!covered) throw decode_error("an address that is damaged or from another job");
  const auto rest = covered->subspan(sizeof head);
  if (rest.size() != std::uint64_t{head.devices_size} + head.inner_size || head.lends > 1)
    throw decode_error("an address whose lengths do not fit its size");
  const auto inner = rest.subspan(head.devices_size);
  return {head.node,
          head.process,
          head.lends == 1,
          head.region,
          decode_devices(rest.first(head.devices_size)),
          {inner.begin(), inner.end()}};
}

}  // namespace troupe::transport::lending
