#pragma once

#include "apps/info/report.hpp"

namespace troupe::info {

/// The lanes that UCX finds here, and which of them Troupe would choose within the host and between
/// hosts.
report transports();

}  // namespace troupe::info
