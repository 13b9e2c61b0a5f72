#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace troupe::transport {

class arena_blocks;

/// Which arena an address belongs to: what is freed says nothing but its address.
namespace arena_table {

struct entry {
  std::atomic<std::uintptr_t> begin{0};  ///< 0: none, or not yet
  std::atomic<std::size_t> size{0};
  std::atomic<arena_blocks*> blocks{nullptr};
  std::atomic<bool> taken{false};

  bool has(std::uintptr_t address) const noexcept {
    return address - begin.load(std::memory_order_relaxed) < size.load(std::memory_order_relaxed);
  }
};

inline constinit std::array<entry, 64> entries{};
inline constinit std::atomic<std::size_t> used{0};  // entries from here on were never taken

/// False if there are too many arenas. Thread-safe.
bool add(const std::byte* begin, std::size_t size, arena_blocks* blocks) noexcept;
void remove(const std::byte* begin) noexcept;

/// Null: it lies in none. Hot path, for all memory that libtorch frees; lock-free.
inline arena_blocks* find(const void* at) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  const auto count = used.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < count; ++i)
    if (entries[i].has(address)) return entries[i].blocks.load(std::memory_order_relaxed);
  return nullptr;
}

}  // namespace arena_table

}  // namespace troupe::transport
