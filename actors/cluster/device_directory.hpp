#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/cluster/device_map.hpp"
#include "troupe/messages/tensor/device_route.hpp"
#include "troupe/transport/transport.hpp"

// The devices of nodes, and how those of two nodes are mapped to each other. Pure functions, no
// I/O.
namespace troupe::detail {

/// The devices of a process, beside host memory: how many of each type, of which each has one at
/// least.
struct device_directory {
  std::map<memory_place::kind, std::uint8_t> counts;

  /// Those that libtorch finds in this process.
  static device_directory here();

  std::uint8_t count(memory_place::kind type) const {
    const auto found = counts.find(type);
    return found == counts.end() ? 0 : found->second;
  }

  friend bool operator==(const device_directory&, const device_directory&) = default;
};

/// What a node announces of its devices to the others.
struct device_options {
  device_directory all;
  std::vector<memory_place> usable;  ///< devices that calls may use; empty: all
  std::map<std::string, std::vector<device_route::entry>> maps;  ///< by a callee's name

  friend bool operator==(const device_options&, const device_options&) = default;
};

/// Checks `rpc_options::devices`. Throws invalid_argument if one of them is no device, or not among
/// `here`.
void check_devices(const std::vector<std::string>& devices, const device_directory& here);

/// Reads `rpc_options::devices` and `rpc_options::device_maps` (by callee) of a node that has the
/// devices `here`. Throws invalid_argument if something in them is no device.
device_options read_device_options(const std::vector<std::string>& devices,
                                   const std::map<std::string, device_map>& maps,
                                   const device_directory& here);

/// A member of the job, and what it has announced of its devices.
struct device_owner {
  transport::rank_t rank = 0;
  std::vector<std::string> names;
  device_options devices;
};

/// What is wrong with the maps of `giver` on its own side: devices that it does not have, or must
/// not use; maps that are not one to one. Empty: nothing.
std::string own_device_problem(const device_owner& giver);

/// What is wrong with its map for `callee`, which may be itself.
std::string device_problem_between(const device_owner& giver, const device_owner& callee);

struct device_problem {
  transport::rank_t giver = 0;
  std::string text;
};

/// The first problem of the maps of a whole job; problems of the rank `first` come before those of
/// others. A map for a name that no node has is one, unless a node with it `may_come` later.
std::optional<device_problem> find_device_problem(const std::vector<device_owner>& all,
                                                  std::optional<transport::rank_t> first,
                                                  bool may_come);

/// How the devices of a node and of a member of its job are mapped to each other.
struct peer_devices {
  device_owner owner;    ///< the member
  device_route calls;    ///< from the node to the member: calls and messages
  device_route answers;  ///< from the node to the member: answers to the member's requests
  std::vector<memory_place> usable;  ///< of the node, by the member; empty: all
};

peer_devices devices_between(const device_owner& self, const device_owner& other);

}  // namespace troupe::detail
