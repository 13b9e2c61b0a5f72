#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "troupe/transport/memory/arena_memory.hpp"
#include "troupe/transport/memory/arena_options.hpp"
#include "troupe/transport/memory/backed_heap.hpp"
#include "troupe/transport/memory/housekeeping.hpp"
#include "troupe/transport/memory/small_blocks.hpp"
#include "troupe/transport/memory/thread_caches.hpp"

namespace troupe::transport {

/// The blocks of one arena: its memory, the heap, the caches of threads (only where `caches` says
/// so, once in a process), and the housekeeping. Thread-safe.
class arena_blocks {
public:
  /// Null, and the reason, where there can be none.
  static std::unique_ptr<arena_blocks> make(const arena_options& options, bool caches,
                                            std::string& why_not);
  ~arena_blocks();
  arena_blocks(const arena_blocks&) = delete;
  arena_blocks& operator=(const arena_blocks&) = delete;

  /// At least so many bytes, which are not 0; null where there is no memory. Hot path.
  std::byte* take(std::size_t bytes) noexcept;
  /// Hot path.
  void put(std::byte* block) noexcept;

  /// One round of housekeeping. Returns whether there is something that a later one may do.
  bool tidy() noexcept;

  arena_counters count() const noexcept;
  std::size_t limit() const noexcept { return heap_.limit(); }
  const arena_memory& memory() const noexcept { return *memory_; }
  /// Null: there are none. Only where threads have caches.
  small_blocks* small() const noexcept { return small_.get(); }

private:
  arena_blocks(const arena_options& options, std::size_t limit,
               std::unique_ptr<arena_memory> memory);
  void start(bool caches);
  std::byte* take_once(std::size_t bytes) noexcept;
  void back_ahead() noexcept;

  const arena_options options_;
  const std::unique_ptr<arena_memory> memory_;
  backed_heap heap_;
  std::unique_ptr<thread_caches> caches_;
  std::unique_ptr<small_blocks> small_;
  std::unique_ptr<housekeeping> housekeeping_;
};

}  // namespace troupe::transport
