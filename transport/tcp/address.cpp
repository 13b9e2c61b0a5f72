#include "troupe/transport/tcp/address.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <numeric>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/auth/signed_bytes.hpp"

namespace troupe::transport::tcp {

namespace {

constexpr std::uint32_t magic = 0x61707254;  // "Trpa"
constexpr std::uint16_t version = 5;

struct wire_place {
  std::uint16_t family;  // 4 or 6
  std::uint16_t port;
  std::uint32_t interface;
  std::array<std::byte, 16> host;
};

struct wire_address {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint8_t protection;
  std::uint8_t places;
  std::uint32_t rank;
  std::uint32_t interfaces;
  nonce id;
  process_identity process;
};
static_assert(sizeof(wire_place) == 24 && sizeof(wire_address) == 80);

wire_place to_wire(const place& one) {
  const auto& from = one.where;
  wire_place to{};
  to.interface = one.interface;
  if (from.storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from.storage);
    to.family = 4;
    std::memcpy(to.host.data(), &v4.sin_addr, sizeof v4.sin_addr);
  } else {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(from.storage);
    to.family = 6;
    std::memcpy(to.host.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
  }
  to.port = from.port();
  return to;
}

socket_address from_wire(const wire_place& from) {
  socket_address to;
  if (from.family == 4) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(to.storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(from.port);
    std::memcpy(&v4.sin_addr, from.host.data(), sizeof v4.sin_addr);
    to.length = sizeof v4;
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(to.storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(from.port);
    std::memcpy(&v6.sin6_addr, from.host.data(), sizeof v6.sin6_addr);
    to.length = sizeof v6;
  }
  return to;
}

job_secret key_of(const job_secret& secret) { return secret.subkey("troupe tcp address"); }

std::span<const std::byte> host_of(const socket_address& one) {
  if (one.storage.ss_family == AF_INET)
    return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in&>(one.storage).sin_addr, 1));
  return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in6&>(one.storage).sin6_addr, 1));
}

// How likely it is that two addresses are on one link: the leading bits that they have in common,
// of IPv6, whose prefixes are longer, an eighth of them; so of two likely ones IPv4 is preferred.
// -1: they are the same.
int likeness(const socket_address& a, const socket_address& b) {
  if (a.storage.ss_family != b.storage.ss_family) return 0;
  const auto x = host_of(a), y = host_of(b);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (const auto differ = std::to_integer<std::uint8_t>(x[i] ^ y[i]); differ != 0) {
      const auto bits = static_cast<int>(i) * 8 + std::countl_zero(differ);
      return x.size() == 4 ? bits : bits / 8;
    }
  return -1;
}

bool is_link_local(const socket_address& one) {
  if (one.storage.ss_family == AF_INET) {
    const auto host = ntohl(reinterpret_cast<const sockaddr_in&>(one.storage).sin_addr.s_addr);
    return host >> 16 == 0xa9fe;  // 169.254.0.0/16
  }
  return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(one.storage).sin6_addr);
}

}  // namespace

std::vector<std::byte> encode(const address& a, const job_secret& secret) {
  const wire_address head{magic,
                          version,
                          static_cast<std::uint8_t>(a.protection),
                          static_cast<std::uint8_t>(a.places.size()),
                          a.rank,
                          a.interfaces,
                          a.id,
                          a.process};
  const std::size_t size = sizeof head + a.places.size() * sizeof(wire_place);
  std::vector<std::byte> out(size);
  std::memcpy(out.data(), &head, sizeof head);
  for (std::size_t i = 0; i < a.places.size(); ++i) {
    const auto one = to_wire(a.places[i]);
    std::memcpy(out.data() + sizeof head + i * sizeof one, &one, sizeof one);
  }
  append_proof(out, key_of(secret));
  return out;
}

address decode(std::span<const std::byte> bytes, const job_secret& secret) {
  if (bytes.size() < sizeof(wire_address) + proof_size)
    throw decode_error("this is not a TCP address of a node: it is too short");
  const auto covered = strip_proof(bytes, key_of(secret));
  if (!covered)
    throw decode_error("this is not a TCP address of a node of this job, or it is damaged");
  const auto said = *covered;
  wire_address head;
  std::memcpy(&head, said.data(), sizeof head);
  if (head.magic != magic || head.version != version)
    throw decode_error("this TCP address is of another version");
  if (head.places == 0 || head.places > address::most_places ||
      said.size() != sizeof head + head.places * sizeof(wire_place) ||
      head.interfaces > address::most_places ||
      head.protection > static_cast<std::uint8_t>(stream_protection::encrypt))
    throw decode_error("this TCP address is malformed");
  address out{head.rank,
              head.id,
              static_cast<stream_protection>(head.protection),
              static_cast<std::uint8_t>(head.interfaces),
              {},
              head.process};
  for (std::size_t i = 0; i < head.places; ++i) {
    wire_place one;
    std::memcpy(&one, said.data() + sizeof head + i * sizeof one, sizeof one);
    if ((one.family != 4 && one.family != 6) ||
        one.interface >= (head.interfaces > 0 ? head.interfaces : address::most_places))
      throw decode_error("this TCP address is malformed");
    out.places.push_back({from_wire(one), static_cast<std::uint8_t>(one.interface)});
  }
  return out;
}

std::vector<local_place> local_places(const std::vector<std::string>& interfaces) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0)
    throw transport_error(
        fmt::format("the network interfaces cannot be listed: {}", std::strerror(errno)));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, freeifaddrs);
  const auto collect = [&](auto&& wanted) {
    std::vector<local_place> out;
    for (const int family : {AF_INET, AF_INET6})
      for (const auto* one = all.get(); one; one = one->ifa_next) {
        if (!one->ifa_addr || one->ifa_addr->sa_family != family || !(one->ifa_flags & IFF_UP) ||
            !wanted(*one))
          continue;
        socket_address where;
        where.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        std::memcpy(&where.storage, one->ifa_addr, where.length);
        if (!is_link_local(where)) out.push_back({one->ifa_name, {where}});
      }
    return out;
  };
  std::vector<local_place> out;
  if (interfaces.size() > address::most_places)
    throw transport_error(fmt::format("{} network interfaces are named, but {} are possible",
                                      interfaces.size(), address::most_places));
  std::uint8_t index = 0;
  for (const auto& name : interfaces) {
    auto found = collect([&](const ifaddrs& one) { return name == one.ifa_name; });
    if (found.empty()) {
      std::vector<std::string> names;
      for (const auto* one = all.get(); one; one = one->ifa_next)
        if (std::ranges::find(names, one->ifa_name) == names.end()) names.push_back(one->ifa_name);
      throw transport_error(fmt::format(
          "network interface '{}' is not here, is down or has no address; this host has {}", name,
          fmt::join(names, ", ")));
    }
    for (auto& one : found) {
      one.at.interface = index;
      out.push_back(std::move(one));
    }
    ++index;
  }
  if (!interfaces.empty()) return out;
  out = collect([](const ifaddrs& one) { return !(one.ifa_flags & IFF_LOOPBACK); });
  if (out.empty()) out = collect([](const ifaddrs&) { return true; });
  if (out.empty()) throw transport_error("this host has no network interface with an address");
  std::vector<std::string> names;
  for (auto& one : out) {
    const auto at = std::ranges::find(names, one.interface);
    one.at.interface = static_cast<std::uint8_t>(
        std::min<std::ptrdiff_t>(at - names.begin(), address::most_places - 1));
    if (at == names.end()) names.push_back(one.interface);
  }
  return out;
}

std::vector<std::size_t> order_of_places(const address& there, std::size_t interfaces,
                                         const std::vector<local_place>& here, std::size_t first) {
  std::vector<std::size_t> out(there.places.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  if (interfaces > 0 && there.interfaces > 0) {
    const auto distance = [&](std::size_t i) {
      return (there.places[i].interface + there.interfaces - first % there.interfaces) %
             there.interfaces;
    };
    std::ranges::stable_sort(out, {}, distance);
    return out;
  }
  const auto rank = [&](std::size_t i) {
    int best = 0;
    for (const auto& one : here) {
      const auto like = likeness(there.places[i].where, one.at.where);
      if (like < 0) return -1;
      best = std::max(best, like);
    }
    return best;
  };
  std::ranges::stable_sort(out, std::ranges::greater(), rank);
  return out;
}

}  // namespace troupe::transport::tcp
