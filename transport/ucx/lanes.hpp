#pragma once

#include <ucp/api/ucp.h>

#include <string>

namespace troupe::transport::ucx {

/// The lanes that UCX has chosen for an endpoint.
struct lanes {
  std::string text;  ///< "posix/memory, cma/memory"
  bool shared_memory = false;
  bool cma = false;
};

/// Queries UCX for the lanes of `ep`, which must stay open meanwhile.
lanes lanes_of(ucp_ep_h ep);

}  // namespace troupe::transport::ucx
