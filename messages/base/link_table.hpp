#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace troupe {

/// A table that static initialisers fill before main and every thread reads without a lock. Entries
/// are never removed; they and the table live as long as the process. Open addressing, append only.
template <class Entry, std::size_t Capacity = 16384>
class link_table {
  static_assert((Capacity & (Capacity - 1)) == 0);

public:
  /// Adds `entry` under `key`, unless there is one: that one is returned. nullptr when the table is
  /// full.
  const Entry* insert(std::uint64_t key, const Entry* entry) noexcept {
    for (std::size_t i = 0; i < Capacity; ++i) {
      auto& slot = slots_[(key + i) & (Capacity - 1)];
      const Entry* present = slot.entry.load(std::memory_order_acquire);
      if (!present) {
        std::uint64_t free = 0;
        // The key is claimed first, so that two writers never fill one slot with two keys.
        if (slot.key.compare_exchange_strong(free, key | claimed) || free == (key | claimed)) {
          if (slot.entry.compare_exchange_strong(present, entry)) return entry;
          return present;
        }
        continue;
      }
      // Relaxed: the key was claimed before the entry that has been acquired above.
      if (slot.key.load(std::memory_order_relaxed) == (key | claimed)) return present;
    }
    return nullptr;
  }

  /// nullptr: there is none.
  const Entry* find(std::uint64_t key) const noexcept {
    for (std::size_t i = 0; i < Capacity; ++i) {
      const auto& slot = slots_[(key + i) & (Capacity - 1)];
      // The key publishes nothing. The load of `entry` pairs with the exchange in `insert`: it gets
      // what the entry points to, or nullptr if the writer has only claimed the slot.
      auto have = slot.key.load(std::memory_order_acquire);
      if (have == 0) return nullptr;
      if (have == (key | claimed)) return slot.entry.load(std::memory_order_acquire);
    }
    return nullptr;
  }

private:
  // Keys are hashes; one bit is given up so that 0 can mean "free".
  static constexpr std::uint64_t claimed = 1;

  struct slot {
    std::atomic<std::uint64_t> key{0};
    std::atomic<const Entry*> entry{nullptr};
  };

  std::array<slot, Capacity> slots_{};
};

}  // namespace troupe
