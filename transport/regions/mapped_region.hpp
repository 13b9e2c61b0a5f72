#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "troupe/messages/base/forked.hpp"
#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/regions/region_address.hpp"
#include "troupe/transport/system/socket.hpp"
#include "troupe/transport/system/unique_fd.hpp"

namespace troupe::transport {

/// Memory of another process, which that one may change at any time. Readable, and writable where
/// it was fetched for that; outlives its owner. Forked processes do not have it.
class mapped_region {
public:
  /// Maps the memory that `descriptor` belongs to. Throws transport_error. `fetch_region` is the
  /// way to one.
  mapped_region(const region_address& where, const unique_fd& descriptor,
                region_access access = region_access::read);
  ~mapped_region();
  mapped_region(const mapped_region&) = delete;
  mapped_region& operator=(const mapped_region&) = delete;

  const std::byte* data() const noexcept { return data_; }
  /// Null if it can be read only.
  std::byte* writable() const noexcept { return access_ == region_access::write ? data_ : nullptr; }
  std::size_t size() const noexcept { return where_.size; }
  const std::array<std::byte, 16>& id() const noexcept { return where_.id; }
  const region_address& address() const noexcept { return where_; }
  bool contains(const void* at) const noexcept;
  /// Whether `descriptor` is of the memory that is mapped here.
  bool is(const unique_fd& descriptor) const noexcept;

private:
  const region_address where_;
  const region_access access_;
  std::byte* data_ = nullptr;
  std::uint64_t file_[2] = {0, 0};  // its device and inode
  forked::home home_;
};

/// The memory of another process of this user and job on this host, from its descriptor_server;
/// mapped until the last owner of the result goes. There is one mapping of an id in a process for
/// each access, also of one that several servers hand out: while it exists, this returns it,
/// without asking a server that was asked before. `where` may come from anywhere.
/// Throws transport_error that names the step and the reason; returns by `deadline`. Thread-safe.
std::shared_ptr<const mapped_region> fetch_region(const region_address& where,
                                                  const job_secret& secret, time_point deadline,
                                                  region_access access = region_access::read);

/// The same memory, mapped for reading and for writing, with one question to its server. Of the
/// first, mprotect could make another one for writing. Where the server lets nobody write, or there
/// is no address space for both, `writable` is null.
struct region_mappings {
  std::shared_ptr<const mapped_region> readable;
  std::shared_ptr<const mapped_region> writable;
};
region_mappings fetch_mappings(const region_address& where, const job_secret& secret,
                               time_point deadline);

}  // namespace troupe::transport
