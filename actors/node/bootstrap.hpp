#pragma once

#include <memory>
#include <string>
#include <vector>

#include "troupe/actors/cluster/device_directory.hpp"
#include "troupe/actors/node/options.hpp"

namespace troupe {

class node_core;

/// Brings a node into its job. Blocks until the whole job is there, or has admitted this node.
/// Throws rendezvous_error, transport_error and the like.
std::shared_ptr<node_core> join_job(
    const rpc_options& options,
    const detail::device_directory& here = detail::device_directory::here());

/// Nodes of this process on a network of its own, without a rendezvous: `names.size()` of them.
std::vector<std::shared_ptr<node_core>> join_loopback(
    const std::vector<std::string>& names, const rpc_options& options,
    const detail::device_directory& here = detail::device_directory::here());

}  // namespace troupe
