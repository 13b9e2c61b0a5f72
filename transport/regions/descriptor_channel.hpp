#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/regions/descriptor_handshake.hpp"
#include "troupe/transport/regions/region_address.hpp"
#include "troupe/transport/system/unique_fd.hpp"

namespace troupe::transport {

/// What a descriptor_server has done so far.
struct descriptor_counts {
  std::uint64_t served = 0;
  std::array<std::uint64_t, refusal_causes> by_cause{};
  std::uint64_t shortages = 0;  ///< how often no connection could be accepted: no descriptor left

  /// Connections that got nothing.
  std::uint64_t refused() const noexcept;
  std::uint64_t refused(refusal_cause why) const noexcept;
};

/// Hands descriptors of one region to the members of the job that belong to this user: to read it,
/// and to write it too where it is given one for that. Has a thread of its own, which sleeps while
/// nobody asks. Processes forked from this one serve nothing.
///
/// Any process of the host can connect. One of another user gets a closed connection; one that has
/// not proved that it has the secret holds a connection for a second at most, and gives it up
/// earlier to one that comes later when there are `most_connections`.
class descriptor_server {
public:
  static constexpr std::size_t most_connections = 16;

  /// `read_only`, and `writable` of the same memory, or none: see not_shared_memory. Throws
  /// transport_error with the reason when one is not fit to be shared, or cannot be served.
  descriptor_server(unique_fd read_only, std::uint64_t size, std::array<std::byte, 16> id,
                    const job_secret& secret, unique_fd writable = {});
  /// Ends the thread. In a forked process: nothing.
  ~descriptor_server();
  descriptor_server(const descriptor_server&) = delete;
  descriptor_server& operator=(const descriptor_server&) = delete;

  const region_address& address() const noexcept;

  /// Thread-safe.
  descriptor_counts counts() const noexcept;

private:
  class impl;

  forked::home home_;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe::transport
