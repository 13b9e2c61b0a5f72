// Memory of the devices of other processes, as CUDA's IPC gives it: an allocation is mapped twice,
// as this process's own memory is.
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "accelerator.hpp"
#include "counters_internal.hpp"
#include "memory_internal.hpp"

namespace troupe::test::accelerator {

namespace {

// How a process finds an allocation of another one.
struct handle_bytes {
  std::int32_t pid;
  std::int32_t file;
  std::uint64_t begin;
  std::uint64_t size;
};

struct mapping {
  std::byte* device = nullptr;  // nobody can access it
  std::byte* host = nullptr;
  std::size_t size = 0;  // of both, whole pages
  int of = 0;            // device
};

struct all_mappings {
  std::mutex mutex;
  std::map<const std::byte*, mapping> by_address;  // of the first one
};

all_mappings& mappings() {
  static auto* const all = new all_mappings;
  return *all;
}

std::atomic<bool> exportable{true};

constexpr std::size_t page = 4096;

std::byte* map_part(int fd, std::size_t begin, std::size_t size, int protection) {
  void* const at =
      mmap(nullptr, size, protection, MAP_SHARED | MAP_NORESERVE, fd, static_cast<off_t>(begin));
  TORCH_CHECK(at != MAP_FAILED, "memory of another process cannot be mapped");
  madvise(at, size, MADV_DONTDUMP);
  return static_cast<std::byte*>(at);
}

// The mapping that holds `pointer`. Under the lock.
const mapping* find(const void* pointer) {
  auto& all = mappings().by_address;
  auto found = all.upper_bound(static_cast<const std::byte*>(pointer));
  if (found == all.begin()) return nullptr;
  --found;
  const auto offset =
      reinterpret_cast<std::uintptr_t>(pointer) - reinterpret_cast<std::uintptr_t>(found->first);
  return offset < found->second.size ? &found->second : nullptr;
}

}  // namespace

exported export_memory(const void* device) {
  TORCH_CHECK(exportable, "the accelerator exports no memory");
  const auto place = find_block(device);
  const handle_bytes name{getpid(), place.file, place.begin, place.size};
  exported out;
  out.handle.resize(sizeof name);
  std::memcpy(out.handle.data(), &name, sizeof name);
  out.offset = place.offset;
  ++count().exports;
  return out;
}

void set_exportable(bool yes) noexcept { exportable = yes; }

opened open_memory(int index, std::span<const std::byte> handle) {
  handle_bytes name{};
  TORCH_CHECK(handle.size() == sizeof name, "a handle has the wrong size");
  std::memcpy(&name, handle.data(), sizeof name);
  TORCH_CHECK(name.pid != getpid(), "a process cannot open its own memory");
  TORCH_CHECK(index >= 0 && index < device_count, "no such device");
  const auto path = "/proc/" + std::to_string(name.pid) + "/fd/" + std::to_string(name.file);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  TORCH_CHECK(fd >= 0, "memory of process ", name.pid, " is not there");
  struct closing {
    int fd;
    ~closing() { close(fd); }
  } const until_mapped{fd};
  struct stat seen {};
  TORCH_CHECK(fstat(fd, &seen) == 0 && S_ISREG(seen.st_mode), "a handle names no memory");
  const auto whole = static_cast<std::uint64_t>(seen.st_size);
  TORCH_CHECK(name.size > 0 && name.size <= whole && name.begin <= whole - name.size,
              "a handle names memory that is not there");
  const auto skipped = name.begin % page;
  mapping made;
  made.of = index;
  made.size = (skipped + name.size + page - 1) / page * page;
  made.device = map_part(fd, name.begin - skipped, made.size, PROT_NONE);
  made.host = map_part(fd, name.begin - skipped, made.size, PROT_READ | PROT_WRITE);
  const std::lock_guard lock(mappings().mutex);
  mappings().by_address[made.device] = made;
  ++count().opened;
  return {made.device + skipped, name.size};
}

void close_memory(const opened& which) noexcept {
  auto& all = mappings();
  const std::lock_guard lock(all.mutex);
  const auto* const found = find(which.data);
  if (!found) return;
  const auto gone = *found;
  all.by_address.erase(gone.device);
  munmap(gone.device, gone.size);
  munmap(gone.host, gone.size);
  ++count().closed;
}

std::byte* foreign_host_pointer(const void* device) noexcept {
  const std::lock_guard lock(mappings().mutex);
  const auto* const found = find(device);
  return found ? found->host + (static_cast<const std::byte*>(device) - found->device) : nullptr;
}

int foreign_device_of(const void* pointer) noexcept {
  const std::lock_guard lock(mappings().mutex);
  const auto* const found = find(pointer);
  return found ? found->of : -1;
}

}  // namespace troupe::test::accelerator
