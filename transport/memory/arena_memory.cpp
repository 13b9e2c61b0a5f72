#include "troupe/transport/memory/arena_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/memory/size_classes.hpp"
#include "troupe/transport/system/descriptors.hpp"
#include "troupe/transport/system/memory_limit.hpp"

// Since Linux 5.14, 6.1 and 6.3; older headers lack them.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

namespace troupe::transport {

namespace {

// A reserve that is smaller is of no use.
constexpr std::size_t least_reserve = std::size_t{32} << 20;

std::string because(int error) { return std::generic_category().message(error); }

int open_memory_file() {
  // Systems may insist on memory that cannot be executed; older ones do not know the flag.
  int fd = ::memfd_create("troupe-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL)
    fd = ::memfd_create("troupe-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  return fd;
}

std::size_t soft_limit(__rlimit_resource which) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return static_cast<std::size_t>(limit.rlim_cur);
}

}  // namespace

arena_memory::arena_memory(std::size_t most, bool huge_pages, std::string& why_not)
    : huge_pages_(huge_pages) {
  // A file beyond the limit would be a signal, not an error.
  const auto file_limit = soft_limit(RLIMIT_FSIZE);
  if (file_limit < least_reserve) {
    why_not = fmt::format("files of this process may have {} bytes (ulimit -f)", file_limit);
    return;
  }
  // Where address space is scarce, most of it is for others.
  const auto bytes = std::min({most, file_limit, soft_limit(RLIMIT_AS) / 4});
  const auto whole = std::max(bytes, least_reserve) / arena_chunk * arena_chunk;
  file_ = unique_fd(open_memory_file());
  if (!file_) {
    why_not = with_descriptor_shortage("memory that can be shared (memfd_create) is refused: " +
                                       because(errno));
    return;
  }
  // Others of the same user could otherwise open it for writing by mistake, in /proc/PID/fd.
  ::fchmod(file_.get(), S_IRUSR);
  bool reserved = false;
  for (auto size = whole; size >= least_reserve && !reserved;
       size = size / 2 / arena_chunk * arena_chunk)
    reserved = reserve(size);
  if (!reserved) {
    why_not =
        fmt::format("{} MiB of address space are refused: {}", least_reserve >> 20, because(errno));
    return;
  }
  if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) {
    why_not = fmt::format("a memory file of {} MiB is refused: {}", size_ >> 20, because(errno));
  } else if (::mmap(base_, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                    file_.get(), 0) == MAP_FAILED) {
    why_not = "mapping a memory file is refused: " + because(errno);
  } else if (::fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    why_not = "sealing a memory file is refused: " + because(errno);
  } else if (::madvise(base_, size_, MADV_DONTFORK) != 0) {
    why_not = "keeping memory from forked processes is refused: " + because(errno);
  } else if (::madvise(base_, size_, MADV_DONTDUMP) != 0) {
    // A core dump would read the holes of the file, and fill them so.
    why_not = "keeping memory from core dumps is refused: " + because(errno);
  } else {
    // Of no bytes: whether the system knows the advice at all.
    populates_ = ::madvise(base_, 0, MADV_POPULATE_WRITE) == 0;
    if (!populates_ || ::madvise(base_, 0, MADV_COLLAPSE) != 0) huge_pages_.store(false);
    return;
  }
  ::munmap(base_, size_);
  base_ = nullptr;
}

arena_memory::~arena_memory() {
  if (base_) ::munmap(base_, size_);
}

// Huge pages need the same alignment in memory as in the file.
bool arena_memory::reserve(std::size_t bytes) {
  void* raw = ::mmap(nullptr, bytes + arena_chunk, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return false;
  auto* begin = static_cast<std::byte*>(raw);
  const auto misplaced = reinterpret_cast<std::uintptr_t>(begin) % arena_chunk;
  const auto skip = misplaced == 0 ? 0 : arena_chunk - misplaced;
  if (skip > 0) ::munmap(begin, skip);
  if (skip < arena_chunk) ::munmap(begin + skip + bytes, arena_chunk - skip);
  base_ = begin + skip;
  size_ = bytes;
  return true;
}

bool arena_memory::back(std::size_t offset, std::size_t bytes) noexcept {
  auto* begin = base_ + offset;
  if (huge_pages_.load(std::memory_order_relaxed)) {
    // A huge page is made of what is there, so each needs a page to begin with. Touched by the
    // system: where memory is short, a touch by ourselves would be a signal and not an error.
    std::size_t at = 0;
    while (at < bytes && ::madvise(begin + at, 1, MADV_POPULATE_WRITE) == 0) at += arena_chunk;
    if (at >= bytes && join_pages(offset, bytes)) return true;
  }
  const auto done = back_pages(offset, bytes);
  if (!done) give_back(offset, bytes);
  return done;
}

bool arena_memory::join_pages(std::size_t offset, std::size_t bytes) noexcept {
  if (!huge_pages_.load(std::memory_order_relaxed)) return false;
  if (::madvise(base_ + offset, bytes, MADV_COLLAPSE) == 0) return true;
  if (errno == EINVAL) huge_pages_.store(false, std::memory_order_relaxed);
  return false;
}

bool arena_memory::back_pages(std::size_t offset, std::size_t bytes) noexcept {
  return populates_ ? ::madvise(base_ + offset, bytes, MADV_POPULATE_WRITE) == 0
                    : ::fallocate(file_.get(), 0, static_cast<off_t>(offset),
                                  static_cast<off_t>(bytes)) == 0;
}

bool arena_memory::give_back(std::size_t offset, std::size_t bytes) noexcept {
  return ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0;
}

unique_fd arena_memory::read_only_descriptor() const {
  const auto path = fmt::format("/proc/self/fd/{}", file_.get());
  unique_fd out(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!out)
    throw transport_error(
        with_descriptor_shortage(fmt::format("{} cannot be opened: {}", path, because(errno))));
  return out;
}

unique_fd arena_memory::writable_descriptor() const {
  unique_fd out(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
  if (!out)
    throw transport_error(
        with_descriptor_shortage("a descriptor cannot be duplicated: " + because(errno)));
  return out;
}

std::size_t default_arena_limit() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES);
  const auto page = ::sysconf(_SC_PAGESIZE);
  auto memory = pages > 0 && page > 0
                    ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
                    : std::uint64_t{2} << 30;
  if (const auto limit = find_memory_limit()) memory = std::min(memory, limit->whole);
  return static_cast<std::size_t>(memory / 4 * 3);
}

}  // namespace troupe::transport
