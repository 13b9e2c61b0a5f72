#include "troupe/transport/virtual/virtual_network.hpp"

#include <array>
#include <cstdio>
#include <utility>

#include "troupe/transport/virtual/endpoint.hpp"

namespace troupe::transport {

using namespace virtual_net;

virtual_network::virtual_network(virtual_network_options options)
    : fabric_(std::make_unique<fabric>(*this, std::move(options))) {}

virtual_network::~virtual_network() = default;

virtual_time virtual_network::now() const { return fabric_->now(); }
virtual_time virtual_network::next() const { return fabric_->next(); }
void virtual_network::advance(virtual_time to) { fabric_->advance(to); }

bool virtual_network::ready(rank_t rank) const {
  const endpoint* node = fabric_->find(rank);
  return node && node->ready();
}

bool virtual_network::alive(rank_t rank) const { return fabric_->find(rank) != nullptr; }

void virtual_network::set_links(const link_conditions& conditions) {
  fabric_->ways().set(conditions);
}

void virtual_network::set_link(rank_t from, rank_t to, const link_conditions& conditions) {
  fabric_->ways().set(from, to, conditions);
}

void virtual_network::partition(const std::vector<std::set<rank_t>>& sides) {
  fabric_->ways().partition(sides);
}

void virtual_network::heal() { fabric_->ways().heal(); }
void virtual_network::cut(rank_t from, rank_t to) { fabric_->ways().cut(from, to); }
void virtual_network::restore(rank_t from, rank_t to) { fabric_->ways().restore(from, to); }
bool virtual_network::crash(rank_t rank) { return fabric_->crash(rank); }
datagram_counters virtual_network::count() const { return fabric_->count(); }

std::unique_ptr<transport> make_virtual_transport(std::shared_ptr<virtual_network> network,
                                                  rank_t rank, sink& to, payload_pool& pool) {
  fabric& net = *network->fabric_;
  return std::make_unique<endpoint>(std::move(network), net, rank, to, pool);
}

std::string to_string(const trace_event& event) {
  static constexpr std::array kinds{"message", "payload", "ack", "goodbye", "reset"};
  static constexpr std::array names{"sent",      "resent",    "lost",     "cut",  "doubled",
                                    "reordered", "delivered", "repeated", "stale"};
  const auto ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(event.when.time_since_epoch()).count();
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "%lld.%09lld %u>%u %s %llu %zu %s",
                static_cast<long long>(ns / 1'000'000'000),
                static_cast<long long>(ns % 1'000'000'000), event.from, event.to,
                kinds[static_cast<std::size_t>(event.kind)],
                static_cast<unsigned long long>(event.sequence), event.bytes,
                names[static_cast<std::size_t>(event.what)]);
  return line.data();
}

}  // namespace troupe::transport
