#pragma once

#include <optional>
#include <vector>

#include "troupe/transport/rendezvous/rendezvous_config.hpp"
#include "troupe/transport/rendezvous/rendezvous_session.hpp"

namespace troupe::transport {

/// The sockets of rank 0 on the addresses of a name.
struct name_listener {
  unique_fd fd;                 ///< listens on the first that this machine has; or nothing
  std::vector<unique_fd> kept;  ///< the others of this machine, bound without listening
  socket_address refused;       ///< without `fd`: the one that cannot be had
  int error = 0;                ///< and why, an errno
};

/// Ranks try the addresses of a name in order, so no other process may have one of them: it could
/// stand between a rank and rank 0. An address that is in use is no reason to try the next.
name_listener listen_on_name(const std::vector<socket_address>& addresses);

/// Serves the store of `config` here, with `contents` as its initial contents. Nothing if this very
/// job is served there already. Another program may hold the port for two seconds, or, if
/// `patient`, since the job was served there a moment ago, until the deadline. Throws store_error.
std::optional<rendezvous_place> serve_tcp(const rendezvous_config& config,
                                          const rendezvous_options& options,
                                          store_contents contents, time_point deadline,
                                          bool patient = false);

/// Connects to the store of rank 0 of `config`. Rank 0 serves it (serve_tcp); if this very job is
/// served there already (rank 0 came twice, or an earlier run is ending), it joins as a client and
/// will find out. Throws store_error.
rendezvous_place open_tcp(const rendezvous_config& config, const rendezvous_options& options,
                          const store_contents& contents, time_point deadline);

}  // namespace troupe::transport
