#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/rendezvous/options.hpp"
#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

/// What a joiner gets when it has been admitted to a running job.
struct join_result {
  std::uint32_t rank = 0;
  std::uint64_t job_id = 0;
  std::vector<std::byte> welcome;  ///< the answer of join_handler::let_in
};

/// Makes the address of the joiner's transport, which contains its rank.
using joiner_address =
    std::function<std::vector<std::byte>(std::uint32_t rank, const job_secret& secret)>;

/// Joins a running job, which is found as by its founders; blocks until it has joined. Of the
/// options, `rank` is that of a member that has left (empty: a new one), `name` may be empty
/// ("worker<rank>"), and `world_size` is ignored.
///
/// Throws rendezvous_error within the timeout: for a job that does not exist, is over, admits no
/// joiners or does not answer; for another job's name or secret; for a name or a rank that is in
/// use, and a rank that was never used. The exceptions of `address` go to the caller.
join_result join_job(const rendezvous_options& options, const joiner_address& address);

/// The same in a store that exists already.
join_result join_job(std::shared_ptr<store> in_store, const rendezvous_options& options,
                     const joiner_address& address);

/// `pre_roster::meets_on_host_alone` for a joiner; false where a handler says where to meet. Throws
/// rendezvous_error like `join_job`.
bool joiner_meets_on_this_host_alone(const rendezvous_options& options);

}  // namespace troupe::transport
