#include "troupe/transport/virtual/virtual_network.hpp"

#include <utility>

#include "troupe/transport/virtual/endpoint.hpp"

namespace troupe::transport {

using namespace virtual_net;

virtual_network::virtual_network(const virtual_network_options& options)
    : fabric_(std::make_unique<fabric>(options, on_event, on_ready)) {}

virtual_network::~virtual_network() = default;

virtual_time virtual_network::now() const { return fabric_->now(); }
virtual_time virtual_network::next() const { return fabric_->next(); }
void virtual_network::advance(virtual_time to) { fabric_->advance(to); }

bool virtual_network::ready(rank_t rank) const {
  const attached_node* node = fabric_->find(rank);
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

}  // namespace troupe::transport
