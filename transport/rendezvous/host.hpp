#pragma once

#include <cstdint>
#include <string>

namespace troupe::transport {

/// Which host and process this is.
struct host_identity {
  std::string name;     ///< the host's name
  std::string network;  ///< boot id and network namespace: within it a port is one program's
  std::string id;       ///< boot id, network namespace and name: equal if and only if shared
  std::uint64_t process = 0;
  std::uint64_t process_namespace = 0;  ///< on one host, equal if and only if shared
};

host_identity this_host();

}  // namespace troupe::transport
