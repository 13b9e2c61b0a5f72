#pragma once

#include <memory>
#include <string>

#include "troupe/transport/rendezvous/options.hpp"
#include "troupe/transport/rendezvous/roster.hpp"
#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

/// Blocks until all ranks of the job have come and know each other. Called once by each.
///
/// Throws rendezvous_error, on every rank concerned and within the timeout: for ranks that did not
/// come (named), came twice (both processes named), have another world size (on all ranks), belong
/// to another job, do not have the secret; for worker names that are invalid or not unique; for
/// variables that are missing or malformed (named); for a port in use and a host that is unknown or
/// silent; for a rank 0 that died. Exceptions of `address_of_this_node` go to its caller, and as
/// text to all other ranks.
roster rendezvous(const rendezvous_options& options, const address_function& address_of_this_node);

/// The same in an existing store; `rank` and `world_size` are in the options; its keys "troupe/..."
/// are used. If no secret was given, one is kept there, too.
roster rendezvous(std::shared_ptr<store> in_store, const rendezvous_options& options,
                  const address_function& address_of_this_node);

/// For a rank that cannot come because its options are invalid: the others get rendezvous_error
/// with `why` at once, instead of waiting for it; also if its world size differs from theirs. Takes
/// three seconds at most where no other rank is found, and never throws: the caller has an error to
/// throw. A rendezvous handler is asked first, with two seconds as its timeout, and takes as long
/// as it does; so do the calls of a store that it gives.
void decline_rendezvous(const rendezvous_options& options, const std::string& why) noexcept;

}  // namespace troupe::transport
