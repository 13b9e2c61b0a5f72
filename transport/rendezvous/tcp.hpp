#pragma once

#include <optional>
#include <vector>

#include "troupe/transport/rendezvous/rendezvous_config.hpp"
#include "troupe/transport/rendezvous/rendezvous_session.hpp"

namespace troupe::transport {

/// What rank 0 has of the addresses of a name.
struct name_listener {
  unique_fd fd;                 ///< listens on the first that this machine has; or nothing
  std::vector<unique_fd> kept;  ///< the others of this machine, where nobody listens
  socket_address refused;       ///< without `fd`: which one cannot be had
  int error = 0;                ///< and why, an errno
};

/// Ranks try the addresses of a name one after the other, so none shall be anybody else's: who had
/// one could stand between a rank and rank 0. One that is in use is no reason to go to the next.
name_listener listen_on_name(const std::vector<socket_address>& addresses);

/// Serves the store of `plan` here, with `contents` in it from the start. Nothing if this very job
/// is served there already. Throws store_error.
std::optional<meeting_place> serve_tcp(const rendezvous_plan& plan,
                                       const rendezvous_options& options, store_contents contents,
                                       time_point deadline);

/// The way to the store of `plan`'s rank 0. Rank 0 serves it (serve_tcp);
/// if this very job is served there already (rank 0 came twice, or an earlier run winds down), it
/// joins as a client and will find out. Throws store_error.
meeting_place open_tcp(const rendezvous_plan& plan, const rendezvous_options& options,
                       store_contents contents, time_point deadline);

}  // namespace troupe::transport
