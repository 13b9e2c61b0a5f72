#pragma once

#include <memory>
#include <string>

#include "troupe/transport/rendezvous/options.hpp"
#include "troupe/transport/rendezvous/roster.hpp"
#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

/// Blocks until all ranks of the job are there and know one another. Called once by each.
///
/// Throws rendezvous_error, on every rank concerned and within the timeout: for ranks that did not
/// come (named), came twice (both processes named), were told another world size (all ranks hear of
/// it), belong to another job, do not know the secret; for worker names that are invalid or not
/// unique; for variables that are missing or malformed (named); for a port in use and a host that
/// is unknown or silent; for a rank 0 that died. What `address_of_this_node` throws goes to its
/// caller, and as text to all other ranks.
roster rendezvous(const rendezvous_options& options, const address_function& address_of_this_node);

/// The same in a store that exists already, whose `rank` and `world_size` are in the options; its
/// keys "troupe/..." are used. A secret that nobody has given is kept there, too.
roster rendezvous(std::shared_ptr<store> meeting_place, const rendezvous_options& options,
                  const address_function& address_of_this_node);

/// For a rank that cannot come, since something is wrong with what it was told: the others get
/// rendezvous_error with `why` at once, instead of waiting for it; so they do if it was told
/// another world size than they were. Takes three seconds at most where nobody is to be found, and
/// never throws: who calls it has an error to throw. A rendezvous handler is asked first, with two
/// seconds as its timeout, and takes as long as it does; so do the calls of a store that it gives.
void decline_rendezvous(const rendezvous_options& options, const std::string& why) noexcept;

}  // namespace troupe::transport
