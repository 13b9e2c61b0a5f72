#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include "troupe/transport/system/unique_fd.hpp"

namespace troupe::transport {

/// Address space over one memory file (memfd), which other processes of the job can map. The file
/// has its whole size from the start, all holes: memory is used by what has been backed. It cannot
/// be truncated (a truncation would kill those who read it), nor can its seals be changed.
///
/// Forked processes do not have it (fork_guard.hpp). Thread-safe.
class arena_memory {
public:
  /// At most so many bytes, a multiple of 2 MiB; half as much where the system refuses that, and so
  /// on. Without memory, and `why_not` says why, where it is refused altogether.
  arena_memory(std::size_t most, bool huge_pages, std::string& why_not);
  ~arena_memory();
  arena_memory(const arena_memory&) = delete;
  arena_memory& operator=(const arena_memory&) = delete;

  explicit operator bool() const noexcept { return base_ != nullptr; }
  std::byte* base() const noexcept { return base_; }  ///< 2 MiB-aligned
  std::size_t size() const noexcept { return size_; }

  /// Backs whole chunks of 2 MiB, with huge pages where the system has them, and maps the pages.
  /// False where there is no memory: then nothing of it is backed.
  bool back(std::size_t offset, std::size_t bytes) noexcept;

  /// Backs and maps pages, of whatever size. False where there is no memory: then some of it may be
  /// backed.
  bool back_pages(std::size_t offset, std::size_t bytes) noexcept;

  /// Makes huge pages of whole chunks, each of which has a page at least; what they contain stays.
  /// False where the system has none.
  bool join_pages(std::size_t offset, std::size_t bytes) noexcept;

  /// Returns whole chunks to the system; their contents are lost. False where that is refused.
  bool give_back(std::size_t offset, std::size_t bytes) noexcept;

  /// Throws transport_error.
  unique_fd read_only_descriptor() const;
  /// The same for who may write all of it. Throws transport_error.
  unique_fd writable_descriptor() const;

private:
  bool reserve(std::size_t bytes);

  unique_fd file_;
  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
  bool populates_ = false;  // since Linux 5.14
  std::atomic<bool> huge_pages_;
};

/// Three quarters of the machine's memory, or of what the control groups allow if that is less.
std::size_t default_arena_limit();

}  // namespace troupe::transport
