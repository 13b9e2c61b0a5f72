#include "troupe/transport/regions/mapped_region.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/regions/fetch_descriptor.hpp"
#include "troupe/transport/system/per_process.hpp"

namespace troupe::transport {

namespace {

// The regions that are mapped now. Whoever may hold a region's last reference must not hold the
// mutex: the region's end takes it.
struct mapped_now {
  using key = std::pair<std::array<std::byte, 16>, region_access>;

  std::mutex mutex;
  std::map<key, std::weak_ptr<const mapped_region>> by_id;

  std::shared_ptr<const mapped_region> find(const key& of) {
    const std::lock_guard lock(mutex);
    const auto at = by_id.find(of);
    return at == by_id.end() ? nullptr : at->second.lock();
  }

  // The one that is there already, or `region`.
  std::shared_ptr<const mapped_region> add(const key& of,
                                           const std::shared_ptr<const mapped_region>& region) {
    const std::lock_guard lock(mutex);
    auto& place = by_id[of];
    if (auto other = place.lock()) return other;
    place = region;
    return region;
  }

  // Once its last owner has gone.
  void remove(const key& of) {
    const std::lock_guard lock(mutex);
    const auto at = by_id.find(of);
    if (at != by_id.end() && at->second.expired()) by_id.erase(at);
  }
};

constinit per_process<mapped_now> mapped_regions;

}  // namespace

mapped_region::mapped_region(const region_address& where, const unique_fd& descriptor,
                             region_access access)
    : where_(where), access_(access) {
  const auto fail = [&](const char* call) {
    fail_to_fetch(where, "mapping", std::string(call) + " failed: " + std::strerror(errno));
  };
  if (where.size > std::numeric_limits<std::size_t>::max() / 2) {
    errno = ENOMEM;
    fail("mmap");
  }
  struct stat is {};
  if (::fstat(descriptor.get(), &is) != 0) fail("fstat");
  if (static_cast<std::uint64_t>(is.st_size) != where.size) {
    errno = EINVAL;
    fail("comparing sizes");
  }
  file_[0] = is.st_dev;
  file_[1] = is.st_ino;
  const int rights = access == region_access::write ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const at =
      ::mmap(nullptr, where.size, rights, MAP_SHARED | MAP_NORESERVE, descriptor.get(), 0);
  if (at == MAP_FAILED) fail("mmap");
  data_ = static_cast<std::byte*>(at);
  // Not in core dumps either: reading the holes of a file to write them there would fill them.
  if (::madvise(at, where.size, MADV_DONTFORK) != 0 ||
      ::madvise(at, where.size, MADV_DONTDUMP) != 0) {
    const int error = errno;
    ::munmap(at, where.size);
    errno = error;
    fail("madvise");
  }
}

bool mapped_region::is(const unique_fd& descriptor) const noexcept {
  struct stat is {};
  return ::fstat(descriptor.get(), &is) == 0 && is.st_dev == file_[0] && is.st_ino == file_[1];
}

mapped_region::~mapped_region() {
  if (!home_.here()) return;  // a child has no such mapping; the addresses may be another's
  ::munmap(data_, where_.size);
  mapped_regions.get().remove({where_.id, access_});
}

bool mapped_region::contains(const void* at) const noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(data_);
  return reinterpret_cast<std::uintptr_t>(at) - begin < where_.size;
}

namespace {

// The mapping that there is already, or a new one.
std::shared_ptr<const mapped_region> map_once(const region_address& where,
                                              const unique_fd& descriptor, region_access access) {
  auto& now = mapped_regions.get();
  auto known = now.find({where.id, access});
  // Another thread may have been faster, or another node of that process be known.
  if (!known)
    known = now.add({where.id, access},
                    std::make_shared<const mapped_region>(where, descriptor, access));
  if (!known->is(descriptor))
    fail_to_fetch(where, "comparing", "its id is that of other memory, which is mapped already");
  return known;
}

std::shared_ptr<const mapped_region> find_mapped(const region_address& where,
                                                 region_access access) {
  auto known = mapped_regions.get().find({where.id, access});
  return known && known->address() == where ? known : nullptr;
}

}  // namespace

std::shared_ptr<const mapped_region> fetch_region(const region_address& where,
                                                  const job_secret& secret, time_point deadline,
                                                  region_access access) {
  if (auto known = find_mapped(where, access)) return known;
  return map_once(where, fetch_descriptor(where, secret, deadline, access), access);
}

region_mappings fetch_mappings(const region_address& where, const job_secret& secret,
                               time_point deadline) {
  region_mappings known{find_mapped(where, region_access::read),
                        find_mapped(where, region_access::write)};
  if (known.readable && known.writable) return known;
  try {
    const auto descriptor = fetch_descriptor(where, secret, deadline, region_access::write);
    known.readable = map_once(where, descriptor, region_access::read);
    known.writable = map_once(where, descriptor, region_access::write);
  } catch (const transport_error&) {
    if (!known.readable) known.readable = fetch_region(where, secret, deadline);
  }
  return known;
}

}  // namespace troupe::transport
