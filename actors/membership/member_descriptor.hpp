#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "troupe/actors/cluster/device_directory.hpp"
#include "troupe/actors/membership/job_rules.hpp"
#include "troupe/actors/membership/view.hpp"

// What a node announces of itself when it joins, as the address of a member: how the transport
// reaches it, its devices, and the options that must be the same on all nodes.
namespace troupe::detail {

struct member_descriptor {
  device_options devices;
  std::vector<std::byte> address;  ///< its transport's
  job_rules rules{};               ///< the job's, according to its own options
};

/// Throws invalid_argument if its device maps do not fit into a member's address.
std::vector<std::byte> write_descriptor(const member_descriptor& what);

/// Throws decode_error. The devices of the result are consistent in themselves; they may not fit
/// those of other members.
member_descriptor read_descriptor(std::span<const std::byte> bytes);

/// A member's names and devices. Throws decode_error.
device_owner owner_of(const member& who);

/// Checks the descriptors of all members: that they agree on the job's rules, and their device
/// maps. Throws invalid_argument if the maps of `self` are wrong (without `self`: of any member),
/// rendezvous_error if another member's are, if rules differ, or if a descriptor cannot be read. If
/// it throws on one member, it throws on all.
void check_descriptors(const membership_view& all, std::optional<transport::rank_t> self,
                       bool may_come);

}  // namespace troupe::detail
