#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "troupe/transport/rendezvous/exchange_round.hpp"
#include "troupe/transport/rendezvous/host.hpp"
#include "troupe/transport/rendezvous/options.hpp"
#include "troupe/transport/rendezvous/rendezvous_config.hpp"
#include "troupe/transport/rendezvous/rendezvous_session.hpp"
#include "troupe/transport/rendezvous/roster.hpp"
#include "troupe/transport/rendezvous/wire.hpp"

namespace troupe::transport {

/// One rank's part in a rendezvous: it opens the place, joins, and exchanges names and addresses
/// with the others. Throws rendezvous_error, and the exceptions of stores and decoders. One thread.
class rank_exchange {
public:
  /// Meets in `place`; where `config` says, if that is null. `options` must outlive this object.
  rank_exchange(rendezvous_config config, const rendezvous_options& options,
                std::shared_ptr<store> place);

  /// Opens the place and joins. An earlier run of this job that is still ending there is waited for
  /// (a server) or skipped (a new generation).
  void join();

  /// Waits for all ranks and exchanges their values. After `join`.
  roster gather(const address_function& address_of_this_node);

  /// Instead of both: notifies the others that this rank does not come. A job that is complete
  /// already goes on. Throws like `join`.
  void decline(const std::string& why);

  /// After a failure: keeps what rank 0 serves until the others have read the reason.
  void leave() noexcept;

private:
  rendezvous_place open_place();
  bool try_join(const rendezvous_place& place, std::uint64_t generation);
  void agree_on_job();
  bool announce();
  void be_absent();
  void disagree(const std::string& text);
  std::string turned_away();
  void learn_members(roster& out);
  void count_local(roster& out) const;
  void learn_addresses(roster& out, const address_function& address_of_this_node);
  void wait_for_all();

  std::string me() const { return describe_process(host_.name, host_.process); }
  exchange_round round(const char* name, const char* failing);
  exchange_round announcements() { return round("announcement", "did not come"); }
  exchange_round addresses() { return round("address", "came, but gave no address"); }

  rendezvous_config config_;
  const rendezvous_options& options_;
  std::shared_ptr<store> given_place_;
  std::chrono::steady_clock::time_point deadline_;
  host_identity host_;
  job_description description_;
  std::uint64_t visit_ = 0;
  std::uint64_t nonce_ = 0;
  std::shared_ptr<rendezvous_session> session_;
  std::optional<std::string> absence_;  // why this rank does not come
};

}  // namespace troupe::transport
