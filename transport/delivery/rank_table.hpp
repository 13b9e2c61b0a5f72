#pragma once

#include <memory>
#include <vector>

#include "troupe/transport/delivery/rank_slots.hpp"

namespace troupe::transport {

/// Peers by their `rank`. Lookups take no lock; `set` needs one outside. Never removes a peer.
template <class Peer>
class rank_table {
public:
  static constexpr rank_t most = rank_slots<Peer>::most;

  Peer* find(rank_t rank) const noexcept { return slots_.find(rank); }

  /// Pre: `rank < most`.
  void set(std::unique_ptr<Peer> p) {
    all_.push_back(std::move(p));
    slots_.set(all_.back()->rank, all_.back().get());
  }

  const std::vector<std::unique_ptr<Peer>>& all() const noexcept { return all_; }

private:
  rank_slots<Peer> slots_;
  std::vector<std::unique_ptr<Peer>> all_;
};

}  // namespace troupe::transport
