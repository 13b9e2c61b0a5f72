#pragma once

#include "troupe/apps/info/report_value.hpp"

namespace troupe::info {

/// The lanes that UCX finds here, which of them Troupe would choose within the host and between
/// hosts, and what of a job would be open to others.
report transports();

}  // namespace troupe::info
