#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

/// One rank of a job.
struct member {
  std::uint32_t rank = 0;
  std::string name;
  std::vector<std::byte> address;       ///< its transport's
  std::uint64_t incarnation = 0;        ///< grows each time a process joins the same store
  std::string host;                     ///< its host's name, for messages
  std::string host_id;                  ///< equal if and only if on one host and network namespace
  std::uint64_t process = 0;            ///< its process id
  std::uint64_t process_namespace = 0;  ///< on one host: equal if each can see the other's end
};

/// What is known once all ranks have come, before they have addresses.
struct pre_roster {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  std::uint32_t local_rank = 0;  ///< among those of the same host, by the launcher or by rank
  std::uint32_t local_world_size = 0;
  std::string job;
  std::uint64_t job_id = 0;  ///< differs for each rendezvous, also of the same job; never 0
  job_secret secret;
  bool all_on_one_host = false;
  bool meets_on_host_alone = false;  ///< joiners, too, can come from this host alone
  std::vector<member> members;       ///< by rank
};

class rendezvous_session;

/// The members of a job that has come together.
struct roster : pre_roster {
  /// The job's store. Served by rank 0 if that listens, and keeps the server. Its keys are those of
  /// this rendezvous alone.
  std::shared_ptr<class store> store;

  /// Notifies the others that this rank does not need the store any more, and closes it. Rank 0
  /// waits for the leave notices of all but the `gone` ranks, at most `limit`, because what it
  /// serves ends with it. Never throws; may be called twice. Without it, the last copy of `store`
  /// and of the roster ends the store at once.
  void close(std::chrono::milliseconds limit = std::chrono::seconds(5),
             std::span<const std::uint32_t> gone = {});

  std::shared_ptr<rendezvous_session> session;  ///< for `close`
};

/// Makes the address of this node's transport, which can depend on the other members.
using address_function = std::function<std::vector<std::byte>(const pre_roster&)>;

}  // namespace troupe::transport
