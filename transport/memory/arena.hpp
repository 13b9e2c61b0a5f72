#pragma once

#include <c10/core/Allocator.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "troupe/transport/memory/arena_options.hpp"
#include "troupe/transport/system/unique_fd.hpp"

namespace troupe::transport {

class arena_blocks;
class arena_memory;
class small_blocks;

/// Memory for tensors which other processes of the job can map: a caching allocator over one memory
/// file. Memory is recycled; from then on it costs neither page faults nor system calls. What was
/// unused for long returns to the system.
///
/// Contents are not cleared, as libtorch's are not: who maps the file sees what was there before.
/// A process that is forked has none of the memory, see fork_guard.hpp, but for that of small
/// blocks; its allocations are the default allocator's, and freeing its parent's tensors does
/// nothing. Thread-safe.
class arena final : public c10::Allocator {
public:
  /// Null, and the reason, where memory files, mapping or sealing them are refused.
  static std::unique_ptr<arena> make(arena_options options, std::string& why_not);

  /// Blocks that are still in use keep their memory, which is then never returned to the system.
  ~arena() override;
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  /// 64-aligned; blocks of more than 1 MiB are 64 KiB-aligned, and those of 16 MiB or of whole
  /// 2 MiB are 2 MiB-aligned. All lie on huge pages where the system has them. Small blocks lie
  /// elsewhere (arena_options::smallest), and those for which there is no memory below the limit
  /// are the default CPU allocator's. The context is the data, and the deleter is raw_deleter().
  /// Throws what the default allocator throws.
  c10::DataPtr allocate(std::size_t n) override;
  /// One function for all arenas, on any thread, at any time.
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t n) const override;

  /// Whether an address lies in its memory. Hot path: one comparison.
  bool owns(const void* at) const noexcept {
    return reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(base_) < size_;
  }
  /// Of an address that it owns, in the memory file.
  std::uint64_t offset_of(const void* at) const noexcept {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(at) - base_);
  }
  /// `offset` is less than size().
  std::byte* at(std::uint64_t offset) const noexcept { return base_ + offset; }
  std::size_t size() const noexcept { return size_; }  ///< bytes of the memory file
  const std::array<std::byte, 16>& id() const noexcept { return id_; }  ///< random

  /// The memory file, for another process. What is mapped through this descriptor can be read and
  /// not written, and mprotect does not change that. A guard against mistakes: a process of the
  /// same user has other ways (/proc/PID/mem). Throws transport_error.
  unique_fd read_only_descriptor() const;
  /// The same for a process that is trusted with writing to all of it. Throws transport_error.
  unique_fd writable_descriptor() const;

  std::size_t limit() const noexcept;  ///< most bytes held

  /// Zeros in a forked process.
  arena_counters count() const noexcept;
  /// One round of housekeeping; memory returns to the system when it has been unused for more than
  /// four.
  void tidy();

private:
  friend arena* install_arena(const arena_options&, std::string&);

  static std::unique_ptr<arena> make(arena_options options, bool caches, std::string& why_not);
  arena(std::unique_ptr<arena_blocks> blocks, std::size_t smallest);

  static void release(void* data) noexcept;
  const arena_memory& shared_memory() const;

  std::unique_ptr<arena_blocks> blocks_;
  small_blocks* small_;
  std::byte* base_;
  std::size_t size_;
  std::size_t smallest_;
  std::array<std::byte, 16> id_{};
  std::atomic<std::uint64_t> fallbacks_{0};
};

/// Makes the arena of this process and has libtorch allocate CPU tensors in it; later calls return
/// the same one, whatever their options. It is never destroyed. Null, and the reason, as above and
/// in a process that was forked from one with an arena. Thread-safe; libtorch does not promise the
/// same for allocations on other threads during the first call.
arena* install_arena(const arena_options& options, std::string& why_not);

/// Null: there is none, or this process was forked from the one that has it. Hot path.
arena* installed_arena() noexcept;

}  // namespace troupe::transport
