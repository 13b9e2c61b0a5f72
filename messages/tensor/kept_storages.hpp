#pragma once

#include <c10/core/Storage.h>

#include <vector>

#include "troupe/messages/tensor/device_streams.hpp"

namespace troupe::detail {

/// Keeps `what` until `streams` have done what they have in hand, or their device has failed; some
/// milliseconds longer at most. Any thread; blocks only where there is no memory for that.
void keep_until_done(const stream_list& streams, std::vector<c10::Storage>&& what) noexcept;

}  // namespace troupe::detail
