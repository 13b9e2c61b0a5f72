#pragma once

#include <memory>

#include "troupe/actors/groups/backend/backend.hpp"
#include "troupe/actors/groups/network/agreed_ways.hpp"

namespace troupe::groups::network {

/// A backend for groups whose ranks lie on several hosts, as many on each, those of a host one
/// after the other. Large operations go through shared memory within a host (make_shared_backend),
/// and every rank has a slice of its own for the hosts before and after, so that all of a host's
/// ranks send at once and each byte crosses between two hosts once. All else, and what is small, is
/// carried out as by a network_backend.
///
/// | operation | within a host | between hosts | within a host |
/// | --- | --- | --- | --- |
/// | all_reduce | reduce_scatter | what the hosts before have combined goes to the next one, which
/// goes on; the last one has the result, which goes back | all_gather | | broadcast | broadcast on
/// the root's host | slices from host to host | all_gather | | all_gather_into_tensor | | each rank
/// and those of its number on the other hosts | all_gather |
///
/// An all_reduce combines in the order of the ranks, since hosts do it one after the other: the
/// bits are those of every other backend. An average, and dtypes of fewer bits than they are
/// combined in, would be rounded more than once: these are carried out by messages.
///
/// Null on all ranks alike where the hosts are not so, or share no memory. All ranks call it while
/// the group is made, with what `agree_on_places` has returned.
std::unique_ptr<backend> make_hosts_backend(const backend_request& request,
                                            const group_places& places);

}  // namespace troupe::groups::network
