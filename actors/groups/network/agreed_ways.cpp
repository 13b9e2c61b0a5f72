#include "troupe/actors/groups/network/agreed_ways.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/backend/collective_rules.hpp"
#include "troupe/actors/groups/network/group_channel.hpp"
#include "troupe/messages/codec/decoder.hpp"
#include "troupe/messages/codec/encoder.hpp"
#include "troupe/transport/rendezvous/host.hpp"

namespace troupe::groups::network {

namespace {

// Stages of the group's making (part_key::sequence 0) that no exchange uses.
constexpr std::uint32_t probe_stage = 1U << 30;
constexpr int small_probes = 5, large_probes = 3;
constexpr std::size_t large_probe = 1 << 20;

// Messages there and back between two ranks: the one that begins measures.
class link_probe {
public:
  link_probe(group_channel& channel, int other, const time_limit& limit)
      : channel_(channel), other_(other), limit_(limit) {}

  schedules::link measure() {
    schedules::link out = network_ways(2).over;
    double best_small = 1e9, best_large = 1e9;
    for (int i = 0; i < small_probes; ++i) best_small = std::min(best_small, there_and_back(0));
    for (int i = 0; i < large_probes; ++i)
      best_large = std::min(best_large, there_and_back(large_probe));
    out.alpha = std::max(best_small / 2, 1e-6);
    out.beta = std::max(best_large - best_small, 1e-6) / static_cast<double>(large_probe);
    return out;
  }

  void answer() {
    for (int i = 0; i < small_probes + large_probes; ++i) {
      receive();
      channel_.send(other_, part{0, probe_stage + sent_++, packet()});
    }
  }

private:
  double there_and_back(std::size_t bytes) {
    const auto content = bytes > 0 ? packet(byte_buffer(bytes)) : packet();
    const auto before = clock::now();
    channel_.send(other_, part{0, probe_stage + sent_++, content});
    receive();
    return std::chrono::duration<double>(clock::now() - before).count();
  }
  void receive() {
    const auto found =
        channel_.parts().take({0, probe_stage + received_++, other_}, limit_.deadline());
    if (found) return;
    fault f;
    f.code = errc::rpc_timeout;
    f.limit = limit_.limit();
    f.text = fmt::format("group '{}' was not made on rank {} within {} ms: rank {} is missing",
                         channel_.name(), channel_.rank(), limit_.limit().count(), other_);
    throw collective_timeout(std::move(f));
  }

  group_channel& channel_;
  const int other_;
  const time_limit& limit_;
  std::uint32_t sent_ = 0, received_ = 0;
};

struct figures {
  double alpha, beta;
};

// Rank 0's for all.
schedules::link agreed_link(const backend_request& request, int other, schedules::link given) {
  const time_limit limit(request.timeout);
  if (request.rank == 0 || request.rank == other) {
    link_probe probe(*request.channel, request.rank == 0 ? other : 0, limit);
    if (request.rank == 0)
      given = probe.measure();
    else
      probe.answer();
  }
  const figures mine{given.alpha, given.beta};
  const auto all = request.exchange->all_gather(std::as_bytes(std::span(&mine, 1)));
  figures first{};
  if (all.at(0).size() != sizeof first) throw decode_error("rank 0 has sent no figures of a link");
  std::memcpy(&first, all[0].data(), sizeof first);
  for (const double one : {first.alpha, first.beta})
    if (!std::isfinite(one) || one <= 0)
      throw decode_error(fmt::format(
          "rank 0 has sent figures that no link has: {} s for a message, {} s for a byte",
          first.alpha, first.beta));
  given.alpha = first.alpha;
  given.beta = first.beta;
  return given;
}

}  // namespace

group_places agree_on_places(const backend_request& request) {
  encoder out(nullptr, nullptr);
  out.put(transport::this_host().id);
  out.put(rules_of(request));
  out.put(troupe::detail::virtual_now != nullptr);
  const auto all = request.exchange->all_gather(out.bytes());
  group_places found;
  std::map<std::string, int> numbers;
  std::string rules;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    decoder in(all[rank], nullptr, nullptr);
    const auto host = in.get<std::string>();
    const auto wishes = in.get<std::string>();
    found.simulated = in.get<bool>() || found.simulated;
    if (rank == 0) rules = wishes;
    const auto number = numbers.emplace(host, static_cast<int>(numbers.size())).first->second;
    found.host_of.push_back(number);
  }
  found.hosts = static_cast<int>(numbers.size());
  found.ways = network_ways(request.size());
  found.ways.apply(rules);
  if (const int hosts = found.ways.hosts; hosts > 0 && request.size() % hosts == 0) {
    found.hosts = hosts;
    for (int rank = 0; rank < request.size(); ++rank)
      found.host_of[static_cast<std::size_t>(rank)] = rank / (request.size() / hosts);
  }
  const auto other = std::ranges::find_if(found.host_of, [](int host) { return host != 0; });
  if (request.size() > 2 && other != found.host_of.end() && !found.simulated &&
      !found.ways.link_is_given()) {
    found.ways.set_link(
        agreed_link(request, static_cast<int>(other - found.host_of.begin()), found.ways.over));
  }
  return found;
}

}  // namespace troupe::groups::network
