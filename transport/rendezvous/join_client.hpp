#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/rendezvous/options.hpp"
#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

/// Who has been let into a running job.
struct admitted {
  std::uint32_t rank = 0;
  std::uint64_t job_id = 0;
  std::vector<std::byte> welcome;  ///< what door_client::let_in has answered
};

/// The address of a newcomer's transport, which contains its rank.
using newcomers_address =
    std::function<std::vector<std::byte>(std::uint32_t rank, const job_secret& secret)>;

/// Asks to be let into a running job, which is found as by its founders; blocks until that is done.
/// Of the options, `rank` is that of a member who has gone (empty: a new one), `name` may be empty
/// ("worker<rank>"), and `world_size` says nothing.
///
/// Throws rendezvous_error within the timeout: for a job that is not there, is over, admits nobody
/// or does not answer; for another job's name or secret; for a name or a rank that somebody has,
/// and a rank that nobody had. What `address` throws goes to the caller.
admitted enter_job(const rendezvous_options& options, const newcomers_address& address);

/// The same in a store that exists already.
admitted enter_job(std::shared_ptr<store> meeting_place, const rendezvous_options& options,
                   const newcomers_address& address);

/// `pre_roster::meets_on_host_alone`, for who joins a running job; false where a handler says where
/// it meets. Throws rendezvous_error like `enter_job`.
bool newcomer_meets_on_this_host_alone(const rendezvous_options& options);

}  // namespace troupe::transport
