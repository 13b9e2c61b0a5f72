#pragma once

#include <memory>

#include "troupe/actors/groups/backend/operation.hpp"
#include "troupe/actors/groups/backend/time_limit.hpp"
#include "troupe/actors/groups/network/group_channel.hpp"
#include "troupe/actors/groups/process_group/group_description.hpp"
#include "troupe/actors/groups/tracing/call_details.hpp"

namespace troupe::groups {

/// What the ranks do before a collective at debug level `detail`: each tells all others, by
/// messages, what it is asked for, with the shapes of tensors that have to be alike; if they
/// differ, also where it was called (`detail`; nullptr: not known). All ranks of the group call it.
/// Throws collective_mismatch on all ranks, which has all of that, and collective_timeout, which
/// names the ranks that have not come.
void check_in_full(network::group_channel& channel, const group_description& about,
                   const operation& what, const std::shared_ptr<const call_detail>& detail,
                   const time_limit& limit);

}  // namespace troupe::groups
