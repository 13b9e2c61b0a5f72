#pragma once

#include "transport/rendezvous/plan.hpp"
#include "transport/rendezvous/session.hpp"

namespace troupe::transport {

/// The way to the store of `plan`'s rank 0. Rank 0 serves it, with `contents` in it from the start;
/// if this very job is served there already (rank 0 came twice, or an earlier run winds down), it
/// joins as a client and will find out. Throws store_error.
meeting_place open_tcp(const rendezvous_plan& plan, const rendezvous_options& options,
                       store_contents contents, time_point deadline);

}  // namespace troupe::transport
