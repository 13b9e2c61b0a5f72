#include "troupe/transport/composite/composite_address.hpp"

#include <cstdint>
#include <cstring>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/auth/signed_bytes.hpp"

namespace troupe::transport::composite {

namespace {

constexpr std::uint32_t magic = 0x43707254;  // "TrpC"
constexpr std::uint32_t version = 1;

// Both addresses follow.
struct head {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t ucx_size;
  std::uint32_t tcp_size;
};
static_assert(sizeof(head) == 16);

job_secret key_of(const job_secret& secret) { return secret.subkey("troupe composite address"); }

}  // namespace

std::vector<std::byte> encode(const address& a, const job_secret& secret) {
  if (a.ucx.size() > address::limit || a.tcp.size() > address::limit)
    throw transport_error("an address of " + std::to_string(a.ucx.size() + a.tcp.size()) +
                          " bytes is too long; name fewer network devices");
  const head h{magic, version, static_cast<std::uint32_t>(a.ucx.size()),
               static_cast<std::uint32_t>(a.tcp.size())};
  std::vector<std::byte> out(sizeof h);
  std::memcpy(out.data(), &h, sizeof h);
  out.insert(out.end(), a.ucx.begin(), a.ucx.end());
  out.insert(out.end(), a.tcp.begin(), a.tcp.end());
  append_proof(out, key_of(secret));
  return out;
}

address decode(std::span<const std::byte> bytes, const job_secret& secret) {
  head h;
  if (bytes.size() < sizeof h + proof_size) throw decode_error("an address is too short");
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.magic != magic || h.version != version)
    throw decode_error(
        "this is the address of a node that takes all others to be on its host: a job that meets "
        "at a loopback address has no nodes of other hosts, and none that join it later if its "
        "founders are in several process namespaces");
  const auto covered = strip_proof(bytes, key_of(secret));
  if (!covered) throw decode_error("an address that is damaged or from another job");
  if (h.ucx_size > address::limit || h.tcp_size > address::limit ||
      covered->size() != sizeof h + h.ucx_size + h.tcp_size)
    throw decode_error("an address whose lengths do not fit its size");
  const auto ucx = covered->subspan(sizeof h, h.ucx_size);
  const auto tcp = covered->subspan(sizeof h + h.ucx_size);
  return {{ucx.begin(), ucx.end()}, {tcp.begin(), tcp.end()}};
}

}  // namespace troupe::transport::composite
