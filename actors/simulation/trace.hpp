#pragma once

#include <string>

#include "troupe/actors/sync/futex.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe {

/// A line of text about a message that rank `to` takes up: time, sender, receiver, kind.
/// "3600.000123456 rank 0 > rank 1: call of twice, request 4294967297, epoch 0, 144 bytes".
std::string describe_message(clock::time_point when, transport::rank_t to,
                             const transport::incoming_message& message);

}  // namespace troupe
