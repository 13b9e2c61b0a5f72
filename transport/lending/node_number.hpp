#pragma once

#include <array>
#include <cstddef>

namespace troupe::transport::lending {

/// A node of a process, at random: another one for each incarnation.
using node_number = std::array<std::byte, 16>;

}  // namespace troupe::transport::lending
