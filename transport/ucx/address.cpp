#include "troupe/transport/ucx/address.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/ucx/queue_shape.hpp"

namespace troupe::transport::ucx {

namespace {

// What the encoding starts with; both worker addresses and the proof follow.
struct head {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t shape;
  std::uint32_t rank;
  std::uint32_t any_size;
  std::uint32_t network_size;
  std::uint32_t reserved2;
  nonce id;
  process_identity process;
};
static_assert(sizeof(head) == 88);

constexpr std::uint32_t magic = 0x61707254;  // "Trpa"
constexpr const char* purpose = "troupe address";

}  // namespace

std::vector<std::byte> encode(const address& a, const job_key& key) {
  if (a.any.size() > address::limit || a.network.size() > address::limit)
    throw transport_error("UCX's address of " + std::to_string(a.any.size()) +
                          " bytes is too long; name fewer network devices");
  const head h{magic,
               wire_version,
               a.shape,
               a.rank,
               static_cast<std::uint32_t>(a.any.size()),
               static_cast<std::uint32_t>(a.network.size()),
               0,
               a.id,
               a.process};
  const std::size_t covered = sizeof h + a.any.size() + a.network.size();
  std::vector<std::byte> bytes(covered + sizeof(proof));
  std::memcpy(bytes.data(), &h, sizeof h);
  const auto rest = std::ranges::copy(a.any, bytes.begin() + sizeof h).out;
  std::ranges::copy(a.network, rest);
  const proof p = prove(key, purpose, std::span(bytes).first(covered));
  std::memcpy(bytes.data() + covered, p.data(), p.size());
  return bytes;
}

address decode(std::span<const std::byte> bytes, const job_key& key) {
  head h;
  if (bytes.size() < sizeof h + sizeof(proof))
    throw decode_error("a UCX address of " + std::to_string(bytes.size()) + " bytes is too short");
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.magic != magic) throw decode_error("these bytes are not a UCX address of Troupe");
  if (h.version != wire_version)
    throw decode_error("a UCX address of version " + std::to_string(h.version) +
                       "; this node speaks version " + std::to_string(wire_version));
  if (h.any_size > address::limit || h.network_size > address::limit ||
      bytes.size() != sizeof h + h.any_size + h.network_size + sizeof(proof))
    throw decode_error("a UCX address whose lengths do not fit its size");
  const auto covered = bytes.first(bytes.size() - sizeof(proof));
  if (!proven(key, purpose, covered, bytes.last<sizeof(proof)>()))
    throw decode_error("a UCX address that is damaged or from another job");
  if (h.shape >= queue_shapes.size())
    throw decode_error("a UCX address with an unknown queue shape");
  address a;
  a.rank = h.rank;
  a.shape = h.shape;
  a.id = h.id;
  a.process = h.process;
  const auto rest = covered.subspan(sizeof h);
  const auto any = rest.first(h.any_size);
  const auto network = rest.subspan(h.any_size);
  a.any.assign(any.begin(), any.end());
  a.network.assign(network.begin(), network.end());
  return a;
}

}  // namespace troupe::transport::ucx
