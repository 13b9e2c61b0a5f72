#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/job_secret.hpp"
#include "transport/rendezvous/environment.hpp"
#include "transport/store/store.hpp"

namespace troupe::transport {

struct rendezvous_options {
  /// "env://", "tcp://HOST:PORT", "file:///PATH" or a URL of a scheme that has a handler (see
  /// handlers.hpp); but for env they may end in "?rank=R&world_size=N".
  /// env:// takes the launcher's variables (see environment.hpp). At tcp:// and env:// rank 0
  /// listens, on the address of HOST alone.
  std::string init_method = "env://";

  /// If not here, nor in `init_method`, they come from the environment.
  std::optional<std::uint32_t> rank, world_size;

  /// The worker's name, at most 127 characters of [A-Za-z0-9_:-]; empty: "worker<rank>".
  std::string name;

  /// For everything together; what fails, fails within it (and half a second, for rank 0 to tell
  /// the others).
  std::chrono::milliseconds timeout{60'000};

  /// The job's name; empty: see read_job_name.
  std::string job;

  /// Others may join the job while it runs (see door.hpp); the same on all ranks.
  bool dynamic = false;

  /// Nobody else can reach the network: ranks may come from other hosts. TROUPE_TRUSTED_NETWORK
  /// says the same.
  bool trusted_network = false;

  /// Told on rank 0 as soon as it listens, with the port that was chosen if port 0 was asked for.
  std::function<void(std::uint16_t port)> on_listening;

  /// Where variables are looked up; empty: this process's environment.
  environment variables;
};

/// One rank of a job.
struct member {
  std::uint32_t rank = 0;
  std::string name;
  std::vector<std::byte> address;       ///< its transport's
  std::uint64_t incarnation = 0;        ///< grows each time a process joins the same store
  std::string host;                     ///< its host's name, for people
  std::string host_id;                  ///< equal if and only if on one host and network namespace
  std::uint64_t process = 0;            ///< its process id
  std::uint64_t process_namespace = 0;  ///< of one host: equal if each can see the other's end
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
  bool meets_on_host_alone = false;  ///< newcomers, too, can come from this host alone
  std::vector<member> members;       ///< by rank
};

class rendezvous_session;

/// A job that has come together.
struct roster : pre_roster {
  /// Lives on rank 0 if that listens; keeps it listening. Its keys are this rendezvous' alone.
  std::shared_ptr<class store> store;

  /// Tells the others that this rank needs the store no more, and ends the store. Rank 0 waits for
  /// all to have said so but those that are `gone`, at most `limit`, because what it keeps ends
  /// with it. Never throws; may be called twice. Without it, the last copy of `store` and of the
  /// roster ends the store at once.
  void close(std::chrono::milliseconds limit = std::chrono::seconds(5),
             std::span<const std::uint32_t> gone = {});

  std::shared_ptr<rendezvous_session> session;  ///< for `close`
};

/// `pre_roster::meets_on_host_alone`, for who joins a running job; false where a handler says where
/// it meets. Throws rendezvous_error like
/// `enter_job`.
bool newcomer_meets_on_this_host_alone(const rendezvous_options& options);

/// The address of this node's transport, which can depend on who else there is.
using address_function = std::function<std::vector<std::byte>(const pre_roster&)>;

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
/// never throws: who calls it has an error to throw.
void decline_rendezvous(const rendezvous_options& options, const std::string& why) noexcept;

}  // namespace troupe::transport
