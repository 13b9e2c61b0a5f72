#include "troupe/transport/memory/arena_table.hpp"

namespace troupe::transport::arena_table {

bool add(const std::byte* begin, std::size_t size, arena_blocks* blocks) noexcept {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto& one = entries[i];
    if (one.taken.exchange(true)) continue;
    one.blocks.store(blocks);
    one.begin.store(reinterpret_cast<std::uintptr_t>(begin));
    one.size.store(size);  // last: until then it has no address
    for (auto n = used.load(); n < i + 1 && !used.compare_exchange_weak(n, i + 1);) {
    }
    return true;
  }
  return false;
}

void remove(const std::byte* begin) noexcept {
  for (auto& one : entries) {
    if (one.begin.load() != reinterpret_cast<std::uintptr_t>(begin)) continue;
    one.size.store(0);
    one.begin.store(0);
    one.taken.store(false);
    return;
  }
}

}  // namespace troupe::transport::arena_table
