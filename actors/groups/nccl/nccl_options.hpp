#pragma once

#include <map>
#include <optional>
#include <string>

#include "troupe/actors/groups/nccl/nccl_interface.hpp"

namespace troupe::groups::nccl {

/// How the communicators of a group are made: group_options::backend_options whose names begin with
/// "nccl.".
///
/// | option | NCCL's own name | values |
/// | --- | --- | --- |
/// | nccl.cga_cluster_size | cgaClusterSize | 0 to 8 |
/// | nccl.min_ctas, nccl.max_ctas | minCTAs, maxCTAs | from 1 on |
/// | nccl.net_name | netName | a network module |
/// | nccl.split_share, nccl.shrink_share | splitShare, shrinkShare | 0, 1 |
/// | nccl.traffic_class | trafficClass | from 0 on |
/// | nccl.collnet_enable | collnetEnable | 0, 1 |
/// | nccl.cta_policy | CTAPolicy | default, efficiency, zero |
/// | nccl.nvls_ctas | nvlsCTAs | from 1 on |
/// | nccl.channels_per_net_peer | nChannelsPerNetPeer | from 1 on |
/// | nccl.nvlink_centric_scheduling | nvlinkCentricSched | 0, 1 |
/// | nccl.high_priority_stream | none | 0, 1: operations that were started run on such a stream |
struct nccl_options {
  configuration config;  ///< without the names, which are below
  std::string net_name;
  bool high_priority_stream = false;

  /// Reads them. Other names that do not begin with "nccl." are not looked at. Throws
  /// invalid_argument, which names the option.
  static nccl_options parse(const std::map<std::string, std::string>& options);

  /// For a library of `version`; `name` is that of the communicator in NCCL's texts. Of fields that
  /// the library does not know, throws invalid_argument if they are set. Its pointers are into this
  /// object and into `name`.
  configuration for_version(int version, const std::string& name) const;
};

}  // namespace troupe::groups::nccl
