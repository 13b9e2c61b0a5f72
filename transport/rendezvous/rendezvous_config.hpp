#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "troupe/transport/rendezvous/environment.hpp"
#include "troupe/transport/rendezvous/options.hpp"
#include "troupe/transport/system/socket.hpp"

namespace troupe::transport {

/// The settings of a rendezvous from options and environment, checked.
struct rendezvous_config {
  enum class way { tcp, file };

  /// How ranks that were given no secret share one. Rank 0 makes it at random; where the others
  /// find it differs.
  enum class agreement {
    alone,      ///< there are no others
    folder,     ///< all are on this host: see published_secret
    file,       ///< in the file that they meet in
    own_store,  ///< in the store that the program has given
  };

  way how = way::tcp;
  endpoint master;             ///< tcp
  std::filesystem::path path;  ///< file
  bool joiner = false;         ///< to a running job: without `rank` and `world_size`
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  std::optional<std::uint32_t> wanted_rank;  ///< a joiner's
  std::optional<std::uint32_t> local_rank, local_world_size;
  bool all_local = false;       ///< all founders are certain to be on this host
  bool admits_joiners = false;  ///< they may come from other hosts
  std::string name;
  std::string job;
  std::optional<given_secret> secret;  ///< from the environment or the program
  agreement agree = agreement::alone;  ///< without one
  environment variables;
  std::optional<std::string> listen_address;  ///< TROUPE_LISTEN_ADDR: rank 0's, behind a NAT
  std::optional<std::string> host_id;         ///< TROUPE_HOST_ID
};

/// `method`: whether `options.init_method` counts. Throws rendezvous_error.
rendezvous_config make_config(const rendezvous_options& options, bool method);

/// The same for a rank that will not come, and only notifies the others: its rank may be invalid.
rendezvous_config make_absent_config(const rendezvous_options& options, bool method);

/// The same for a node that joins a running job. Ranks in the environment are ignored.
rendezvous_config make_joiner_config(const rendezvous_options& options, bool method);

/// Whether all nodes that meet by this configuration, joiners included, are sure to run on one
/// host: rank 0 listens on a loopback address.
bool meets_on_this_host_alone(const rendezvous_config& config);

}  // namespace troupe::transport
