#pragma once

#include <c10/core/ScalarType.h>

#include "troupe/actors/groups/backend/operation.hpp"
#include "troupe/actors/groups/schedules/network_ways.hpp"

namespace troupe::groups::network {

/// Can values be combined in any order, bit by bit the same?
bool order_is_free(reduce_op reduction, c10::ScalarType dtype) noexcept;

/// Are values combined in the order of the ranks, whatever that costs?
bool goes_in_order(const operation& what, const network_ways& ways) noexcept;

}  // namespace troupe::groups::network
