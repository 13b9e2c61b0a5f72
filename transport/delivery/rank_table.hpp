#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "troupe/transport/transport.hpp"

namespace troupe::transport {

/// Peers by their `rank`. Lookups take no lock; `set` needs one outside. Never removes a peer.
template <class Peer>
class rank_table {
public:
  static constexpr std::size_t chunk_size = 1024;
  static constexpr std::size_t chunks = 1024;

  rank_table() = default;
  ~rank_table() {
    for (auto& c : chunks_) delete c.load();
  }
  rank_table(const rank_table&) = delete;
  rank_table& operator=(const rank_table&) = delete;

  Peer* find(rank_t rank) const noexcept {
    if (rank >= chunk_size * chunks) return nullptr;
    const chunk* c = chunks_[rank / chunk_size].load(std::memory_order_acquire);
    return c ? (*c)[rank % chunk_size].load(std::memory_order_acquire) : nullptr;
  }

  /// Pre: `rank < chunk_size * chunks`.
  void set(std::unique_ptr<Peer> p) {
    auto& slot = chunks_[p->rank / chunk_size];
    chunk* c = slot.load();
    if (!c) {
      c = new chunk{};
      slot.store(c, std::memory_order_release);
    }
    (*c)[p->rank % chunk_size].store(p.get(), std::memory_order_release);
    all_.push_back(std::move(p));
  }

  const std::vector<std::unique_ptr<Peer>>& all() const noexcept { return all_; }

private:
  using chunk = std::array<std::atomic<Peer*>, chunk_size>;
  std::array<std::atomic<chunk*>, chunks> chunks_{};
  std::vector<std::unique_ptr<Peer>> all_;
};

}  // namespace troupe::transport
