// Calls of the node that owns it; endpoint_arrivals.cpp handles what comes from the network.

#include "troupe/transport/virtual/endpoint.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport::virtual_net {

namespace {

// The contents of an address. `check` ensures that it was made on this network, and is complete.
struct address_record {
  std::uint32_t magic = 0x76727054;  // "Tprv"
  rank_t rank = 0;
  std::uint64_t id = 0;
  std::uint64_t check = 0;
};
static_assert(sizeof(address_record) == 24);

address_record address_of(const node_key& key, std::uint64_t salt) {
  address_record record;
  record.rank = key.rank;
  record.id = key.id;
  record.check = splitmix64(splitmix64(salt ^ key.id) + key.rank);
  return record;
}

}  // namespace

endpoint::endpoint(std::shared_ptr<virtual_network> network, fabric& net, rank_t rank, sink& to,
                   payload_pool& pool)
    : network_(std::move(network)),
      net_(net),
      sink_(to),
      pool_(pool),
      key_(net.enter(*this, rank)) {}

endpoint::~endpoint() {
  if (crashed_) return;
  net_.leave(key_);
}

std::vector<std::byte> endpoint::address() const {
  const address_record record = address_of(key_, net_.salt());
  const auto bytes = std::as_bytes(std::span(&record, 1));
  return {bytes.begin(), bytes.end()};
}

void endpoint::add_peer(rank_t rank, std::span<const std::byte> address) {
  const std::string cannot = "cannot connect to " + rank_name(rank) + ": this is not its address";
  address_record given;
  if (address.size() != sizeof given) throw transport_error(cannot);
  std::memcpy(&given, address.data(), sizeof given);
  const node_key who{given.rank, given.id};
  const address_record right = address_of(who, net_.salt());
  if (rank != given.rank || std::memcmp(&given, &right, sizeof given) != 0)
    throw transport_error(cannot);
  if (crashed_) return;
  peer& p = peers_[rank];
  const auto undelivered = [&](const loss& l) { return l.who.rank == rank; };
  if (p.id != 0 && (!p.lost || std::ranges::any_of(losses_, undelivered)))
    throw transport_error(rank_name(rank) + " is connected already; close it first");
  if (who.id <= p.id)
    throw transport_error(rank_name(rank) +
                          " was lost and cannot be added again with the same address");
  p = {who.id, nullptr, nullptr};
  changing([&] { admit(who, p); });
  if (!net_.lives(who.id)) net_.report_gone(key_, who);
}

bool endpoint::send(rank_t rank, std::uint64_t order, frame&& envelope,
                    std::vector<outgoing_payload>&& payloads) {
  if (payloads.size() > max_payloads)
    throw invalid_argument("a message can have " + std::to_string(max_payloads) +
                           " payloads, not " + std::to_string(payloads.size()));
  if (crashed_) return false;
  const auto at = peers_.find(rank);
  if (at == peers_.end()) throw transport_error(rank_name(rank) + " was never added");
  peer& p = at->second;
  if (p.lost) throw peer_lost(rank_name(rank) + " is lost: " + p.lost->text);
  std::uint64_t bytes = envelope.size();
  for (const auto& payload : payloads) {
    if (payload.place.where != memory_place::kind::host)
      throw transport_error("the virtual network carries host memory only");
    bytes += payload.size;
  }
  if (!p.way) open({rank, p.id}, &p);
  p.way->send(order, std::move(envelope), std::move(payloads));
  ++counters_.messages_sent;
  counters_.bytes_sent += bytes;
  return net_.options().self_driven;
}

unsigned endpoint::progress() {
  bell_.clear();
  woken_ = false;
  unsigned n = deliver_to_sink();
  if (n == 0 && net_.options().self_driven && net_.next() != never) {
    net_.advance(net_.next());
    n = 1 + deliver_to_sink();
  }
  return n;
}

unsigned endpoint::deliver_to_sink() {
  auto messages = std::exchange(messages_, {});
  const auto losses = std::exchange(losses_, {});
  for (auto& h : messages) {
    ++counters_.messages_received;
    counters_.bytes_received += h.message.envelope.size();
    for (const auto& payload : h.message.payloads) counters_.bytes_received += payload.size;
    sink_.on_message(std::move(h.message));
  }
  for (const auto& l : losses) sink_.on_peer_lost(l.who.rank, l.why);
  return static_cast<unsigned>(messages.size() + losses.size());
}

bool endpoint::arm() {
  bell_.clear();
  if (std::exchange(woken_, false) || ready()) return false;
  if (net_.options().self_driven && net_.next() != never) return false;
  bell_.arm();
  return true;
}

void endpoint::wake() {
  if (crashed_) return;
  changing([&] { woken_ = true; });
  bell_.ring();
}

void endpoint::close_peer(rank_t rank, bool force) {
  const auto at = peers_.find(rank);
  if (at == peers_.end()) return;
  peer& p = at->second;
  const node_key who{rank, p.id};
  std::erase_if(losses_, [&](const loss& l) { return l.who == who; });
  if (p.lost) return;
  p.lost = std::make_unique<peer_loss>(loss_kind::left, "this node closed the connection");
  std::erase_if(messages_, [&](const arrival& h) { return h.from == who; });
  if (p.way && !force && !p.way->idle()) {
    p.way->closing = true;  // the leave notice follows the last acknowledgement
    return;
  }
  if (p.way) erase(*p.way);
  net_.begin_close_handshake(key_, who);
}

std::vector<route> endpoint::routes() const {
  std::vector<route> result;
  for (const auto& [rank, p] : peers_)
    if (!p.lost) result.push_back({rank, "virtual", "datagrams", "a simulated network"});
  return result;
}

}  // namespace troupe::transport::virtual_net
