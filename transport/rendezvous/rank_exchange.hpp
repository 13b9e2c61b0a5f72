#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "troupe/transport/rendezvous/host.hpp"
#include "troupe/transport/rendezvous/options.hpp"
#include "troupe/transport/rendezvous/exchange_round.hpp"
#include "troupe/transport/rendezvous/rendezvous_config.hpp"
#include "troupe/transport/rendezvous/roster.hpp"
#include "troupe/transport/rendezvous/rendezvous_session.hpp"
#include "troupe/transport/rendezvous/wire.hpp"

namespace troupe::transport {

/// One rank's way through a rendezvous: it opens the place, joins, and gathers who else there is.
/// Throws rendezvous_error, and what stores and decoders throw. One thread.
class rendezvous_meeting {
public:
  /// Meets in `place`; where `plan` says, if that is null. `options` must outlive the meeting.
  rendezvous_meeting(rendezvous_plan plan, const rendezvous_options& options,
                     std::shared_ptr<store> place);

  /// Opens a way to the place and joins. An earlier run of this job that still winds down there is
  /// waited for (a server) or passed by (a generation further).
  void join();

  /// Waits for all ranks and exchanges what they say. After `join`.
  roster gather(const address_function& address_of_this_node);

  /// Instead of both: tells the others that this rank does not come. A job that is complete already
  /// goes on. Throws like `join`.
  void decline(const std::string& why);

  /// After a failure: what rank 0 keeps must not end before the others have read why this failed.
  void leave() noexcept;

private:
  meeting_place open_place();
  bool try_join(const meeting_place& place, std::uint64_t generation);
  void agree_on_job();
  bool announce();
  void be_absent();
  void disagree(const std::string& text);
  std::string turned_away();
  void learn_members(roster& out);
  void count_local(roster& out) const;
  void learn_addresses(roster& out, const address_function& address_of_this_node);
  void wait_for_all();

  std::string me() const { return whom(host_.name, host_.process); }
  rendezvous_phase phase(const char* name, const char* failing);
  rendezvous_phase announcements() { return phase("announcement", "did not come"); }
  rendezvous_phase addresses() { return phase("address", "came, but gave no address"); }

  rendezvous_plan plan_;
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
