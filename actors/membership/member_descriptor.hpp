#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "troupe/actors/membership/job_rules.hpp"
#include "troupe/actors/membership/view.hpp"
#include "troupe/actors/cluster/device_directory.hpp"

// The address that nodes learn of each other when they meet: how the transport reaches the node,
// what it has of devices, and the options that must be the same on all of them.
namespace troupe::detail {

struct member_descriptor {
  node_devices devices;
  std::vector<std::byte> address;  ///< its transport's
  job_rules rules{};               ///< what it takes for the job's
};

/// Throws invalid_argument when its device maps take more than a member's address may.
std::vector<std::byte> write_card(const member_descriptor& card);

/// Throws decode_error. What it says of devices makes sense in itself, and perhaps not to others.
member_descriptor read_card(std::span<const std::byte> bytes);

/// A member's names and devices. Throws decode_error.
device_owner owner_of(const member& who);

/// Checks what all members have written on their cards: that they agree on the job's rules, and
/// their device maps. Throws invalid_argument when the maps of `self` are wrong (without one:
/// anybody's), rendezvous_error when another's are, for rules that differ, or when a card cannot be
/// read. When one throws, all do.
void check_cards(const membership_view& all, std::optional<transport::rank_t> self, bool may_come);

}  // namespace troupe::detail
