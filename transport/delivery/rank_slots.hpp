#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "troupe/transport/transport.hpp"

namespace troupe::transport {

/// Finds what belongs to a rank, without a lock: chunks are published by release stores and not
/// freed before the table. `set` needs a lock outside. Owns nothing that it points to.
template <class T>
class rank_slots {
public:
  static constexpr std::size_t chunk_size = 1024;
  static constexpr std::size_t chunks = 1024;
  static constexpr rank_t most = chunk_size * chunks;  ///< ranks

  rank_slots() = default;
  ~rank_slots() {
    for (auto& c : chunks_) delete c.load();
  }
  rank_slots(const rank_slots&) = delete;
  rank_slots& operator=(const rank_slots&) = delete;

  /// What was set last; nullptr: nothing was.
  T* find(rank_t rank) const noexcept {
    if (rank >= most) return nullptr;
    const chunk* c = chunks_[rank / chunk_size].load(std::memory_order_acquire);
    return c ? (*c)[rank % chunk_size].load(std::memory_order_acquire) : nullptr;
  }

  /// Pre: `rank < most`.
  void set(rank_t rank, T* what) {
    // Two releases, which the loads in `find` acquire: the empty chunk, then all that was done to
    // `what` before.
    auto& slot = chunks_[rank / chunk_size];
    chunk* c = slot.load();
    if (!c) {
      c = new chunk{};
      slot.store(c, std::memory_order_release);
    }
    (*c)[rank % chunk_size].store(what, std::memory_order_release);
  }

private:
  using chunk = std::array<std::atomic<T*>, chunk_size>;
  std::array<std::atomic<chunk*>, chunks> chunks_{};
};

}  // namespace troupe::transport
