#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "troupe/messages/tensor/device_route.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe {

struct rpc_options;

}  // namespace troupe

// What nodes have of devices, and what becomes of it between two of them. Functions of values, no
// I/O.
namespace troupe::detail {

/// Of a node: on the wire a device is a number in a byte.
inline constexpr std::uint8_t most_gpus = 128;

/// The devices that there are beside host memory.
struct device_directory {
  std::uint8_t gpus = 0;

  /// What libtorch finds in this process.
  static device_directory here() noexcept;
};

/// What a node tells the others of its devices.
struct node_devices {
  std::uint8_t gpus = 0;             ///< cuda:0 and so on
  std::vector<memory_place> usable;  ///< GPUs that calls may use; empty: all
  std::map<std::string, std::vector<device_route::entry>> maps;  ///< by a callee's name

  friend bool operator==(const node_devices&, const node_devices&) = default;
};

/// Throws invalid_argument for `rpc_options::devices` that are none, or not among these.
void check_devices(const rpc_options& options, const device_directory& here);

/// `rpc_options::device_maps` and `devices` of a node that has such devices. Throws
/// invalid_argument for what is no device.
node_devices read_device_options(const rpc_options& options, const device_directory& here);

/// A member of the job, and what it has said of its devices.
struct device_owner {
  transport::rank_t rank = 0;
  std::vector<std::string> names;
  node_devices devices;
};

/// What is wrong with the maps of `giver` as far as itself goes: devices that it has not, or shall
/// not use; maps that are not one to one. Empty: nothing.
std::string own_device_problem(const device_owner& giver);

/// What is wrong with its map for `callee`, which may be itself.
std::string device_problem_between(const device_owner& giver, const device_owner& callee);

struct device_problem {
  transport::rank_t giver = 0;
  std::string text;
};

/// The first problem of the maps of a whole job, `first`'s own before those of others. Names that
/// nobody has are one, unless somebody `may_come` who has them.
std::optional<device_problem> find_device_problem(const std::vector<device_owner>& all,
                                                  std::optional<transport::rank_t> first,
                                                  bool may_come);

/// What lies between a node and a member of its job.
struct peer_devices {
  device_owner owner;    ///< the member
  device_route calls;    ///< from the node to the member: calls and messages
  device_route answers;  ///< to what the member has asked for
};

peer_devices devices_between(const device_owner& self, const device_owner& other);

}  // namespace troupe::detail
