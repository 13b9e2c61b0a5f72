#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "troupe/transport/memory/lazy_table.hpp"
#include "troupe/transport/memory/small_sizes.hpp"

namespace troupe::transport {

/// Memory for tensors that are too small to be lent: private to the process, cut into slabs of
/// blocks of one size. Each thread keeps some free blocks, so that most allocations take no lock.
/// A slab whose blocks have all come back may serve another size; its memory returns to the system
/// when it has been unused for more than four rounds of `tidy`. What a thread keeps, it keeps until
/// it ends: few blocks, each of which may keep a slab. After Bonwick, "The Slab Allocator"
/// (USENIX 1994), and Bonwick and Adams, "Magazines and Vmem" (USENIX 2001). Thread-safe.
class small_blocks {
public:
  static constexpr std::size_t slab_size = std::size_t{64} << 10;

  /// At most `most` bytes, a multiple of slab_size; null where the system has no such address
  /// space. `on_unused`, which must not use the blocks, is called when the first slab is unused.
  static std::unique_ptr<small_blocks> make(std::function<void()> on_unused,
                                            std::size_t most = std::size_t{64} << 30);
  /// No block may be in use, and no other thread have cached one.
  ~small_blocks();
  small_blocks(const small_blocks&) = delete;
  small_blocks& operator=(const small_blocks&) = delete;

  /// A block of at least so many bytes, 1 to largest_small, 64-aligned; null where there is no
  /// memory. Hot path: no lock while this thread has a free one.
  std::byte* take(std::size_t bytes) noexcept {
    const auto size_class = small_class_of(bytes);
    auto& own = own_cache[size_class];
    if (auto* const block = own.first) [[likely]] {
      own.first = next_of(block);
      --own.count;
      return block;
    }
    return refill(size_class);
  }

  /// On any thread. Hot path, as above.
  void put(std::byte* block) noexcept {
    const auto size_class = classes_[slab_of(block)];
    auto& own = own_cache[size_class];
    if (own.count < own.most) [[likely]] {
      next_of(block) = own.first;
      own.first = block;
      ++own.count;
      return;
    }
    overflow(block, size_class);
  }

  bool owns(const void* at) const noexcept {
    return reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(base_) < size_;
  }

  /// One round: returns the memory of slabs that were unused in the last four. Whether some are
  /// unused still.
  bool tidy() noexcept;
  bool has_unused() const noexcept;

  std::size_t held() const noexcept;  ///< bytes of the slabs that have memory

private:
  // Free blocks of one size that a thread has, linked through their first bytes. `most` is 0 until
  // the thread's end is watched, and again after it.
  struct bin {
    std::byte* first;
    std::uint32_t count;
    std::uint32_t most;
  };
  struct leaving;
  // There is one object that uses them.
  static inline thread_local constinit std::array<bin, small_classes + 1> own_cache{};

  // A list of slabs has the number of its first one, and slabs those of their neighbours: 0 is
  // none, and n + 1 slab n.
  using link = std::uint32_t;
  struct slab {
    std::byte* free;  // blocks that have come back, linked
    link next, previous;
    std::uint32_t cut;     // blocks that have ever been taken
    std::uint32_t in_use;  // those that callers and threads have
  };
  // The slabs of a size that have room.
  struct alignas(64) shelf {
    std::mutex mutex;
    link first = 0;
  };

  small_blocks(std::byte* base, std::size_t size, std::function<void()> on_unused);

  static std::byte*& next_of(std::byte* block) noexcept {
    return *reinterpret_cast<std::byte**>(block);
  }
  std::size_t slab_of(const std::byte* block) const noexcept {
    return static_cast<std::size_t>(block - base_) / slab_size;
  }

  bool begin_caching() noexcept;
  std::byte* refill(unsigned size_class) noexcept;
  void overflow(std::byte* block, unsigned size_class) noexcept;
  std::byte* take_one(shelf& from, unsigned size_class) noexcept;
  void put_one(shelf& to, std::byte* block, unsigned size_class) noexcept;
  void give_all(bin& from, unsigned size_class) noexcept;
  link new_slab(unsigned size_class) noexcept;
  void retire(link which) noexcept;
  void push(link& list, link which) noexcept;
  void remove(link& list, link which) noexcept;

  std::byte* const base_;
  const std::size_t size_;
  const std::function<void()> on_unused_;
  lazy_table<std::uint8_t> classes_;  // of each slab; read without a lock by who has a block of it
  lazy_table<slab> slabs_;
  std::array<shelf, small_classes + 1> shelves_;

  mutable std::mutex mutex_;      // of the slabs that are of no size
  std::array<link, 5> unused_{};  // for so many rounds
  link returned_ = 0;             // without memory
  std::uint32_t made_ = 0;        // those behind were never used
  std::uint32_t with_memory_ = 0;
};

}  // namespace troupe::transport
