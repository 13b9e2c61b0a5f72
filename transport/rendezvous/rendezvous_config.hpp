#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "troupe/transport/rendezvous/environment.hpp"
#include "troupe/transport/rendezvous/options.hpp"
#include "troupe/transport/store/tcp/tcp_store_socket.hpp"

namespace troupe::transport {

/// Everything that options and environment say about a rendezvous, checked.
struct rendezvous_plan {
  enum class way { tcp, file };

  /// How ranks that were given no secret come to share one. Rank 0 makes it at random; what differs
  /// is where the others find it.
  enum class agreement {
    alone,      ///< there are no others
    folder,     ///< all are on this host: see published_secret
    file,       ///< in the file that they meet in
    own_store,  ///< in the store that the program has given
  };

  way how = way::tcp;
  endpoint master;             ///< tcp
  std::filesystem::path path;  ///< file
  bool newcomer = false;       ///< to a running job: without `rank` and `world_size`
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  std::optional<std::uint32_t> wanted_rank;  ///< a newcomer's
  std::optional<std::uint32_t> local_rank, local_world_size;
  bool all_local = false;         ///< all founders are on this host, surely; false may mean unknown
  bool admits_newcomers = false;  ///< who may come from other hosts
  bool trusted_network = false;   ///< else nobody comes from other hosts
  std::string name;
  std::string job;
  std::optional<given_secret> secret;  ///< from outside
  agreement agree = agreement::alone;  ///< without one
  environment variables;
  std::optional<std::string> listen_address;  ///< TROUPE_LISTEN_ADDR: rank 0's, behind a NAT
  std::optional<std::string> host_id;         ///< TROUPE_HOST_ID
};

/// `method`: does `options.init_method` matter? Throws rendezvous_error.
rendezvous_plan make_plan(const rendezvous_options& options, bool method);

/// The same for a rank that will not come, and only tells the others: it may be none of the job's.
rendezvous_plan make_absentees_plan(const rendezvous_options& options, bool method);

/// The same for somebody who joins a running job. What the environment says of ranks does not
/// count.
rendezvous_plan make_newcomers_plan(const rendezvous_options& options, bool method);

/// Do those who meet by this plan, newcomers included, surely run on one host? They do where rank 0
/// listens on a loopback address.
bool meets_on_this_host_alone(const rendezvous_plan& plan);

}  // namespace troupe::transport
