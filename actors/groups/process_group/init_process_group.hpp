#pragma once

#include <string>

#include "troupe/actors/groups/process_group/process_group.hpp"
#include "troupe/actors/node/options.hpp"

namespace troupe {

/// Joins a job for collectives alone, without functions to be called: the group of all its ranks,
/// once they are there. `backend` is "troupe" or has one for each device type ("cpu:troupe").
/// `where` says how the ranks meet, as for init_rpc, and `how` the rest; its name is not used. The
/// node behind it lives as long as copies of the group. May be called again after
/// destroy_process_group, any number of times. Throws what init_rpc throws, and invalid_argument.
process_group init_process_group(const std::string& backend = "troupe",
                                 const rpc_options& where = {}, const group_options& how = {});

/// Destroys the group; one of init_process_group ends its node as well, when all ranks have called
/// this, or after the group's timeout (rpc_timeout). Other groups of that node end with it.
void destroy_process_group(const process_group& group);

}  // namespace troupe
