#pragma once

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/regions/region_address.hpp"
#include "troupe/transport/system/socket.hpp"
#include "troupe/transport/system/unique_fd.hpp"

namespace troupe::transport {

/// The descriptor of the region at `where`, from the descriptor_server of its owner, once both have
/// proved that they have the secret. It is what not_shared_memory demands. A server that is busy is
/// asked again. It can be written if `access` says so. Throws transport_error that names the step
/// and the reason, by `deadline`.
unique_fd fetch_descriptor(const region_address& where, const job_secret& secret,
                           time_point deadline, region_access access = region_access::read);

/// Throws transport_error: the memory at `where` cannot be mapped since `step` failed.
[[noreturn]] void fail_to_fetch(const region_address& where, const char* step,
                                const std::string& reason);

}  // namespace troupe::transport
