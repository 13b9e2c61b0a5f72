#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/actors/cluster/worker_info.hpp"
#include "troupe/actors/profiling/event_collector.hpp"
#include "troupe/actors/profiling/process_profile.hpp"
#include "troupe/messages/envelope/envelope.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe::detail {

/// "rpc_sync#f(a -> b)".
std::string range_name(std::string_view what, std::string_view function, std::string_view caller,
                       std::string_view callee);

/// The sequence number of both ranges of a call, the caller's and the callee's: libtorch's
/// profilers match them by it. -1 if the call wants no answer.
std::int64_t range_number(transport::rank_t caller, std::uint64_t request) noexcept;

/// What the callee records of one call, or message to an actor: for its caller's profile, for the
/// server-wide one, or for both. Made on the thread where the call begins, closed on the one that
/// answers it.
class call_profile {
public:
  call_profile(const worker_info& self, std::string name, std::int64_t number,
               const profile_options& what, std::optional<profile_options> callers,
               std::shared_ptr<event_collector> process);

  const std::shared_ptr<event_collector>& events() const noexcept { return events_; }

  /// Does the caller want a profile?
  bool has_caller() const noexcept { return callers_.has_value(); }

  /// The call is answered: passes on what the server-wide profile wants. Returns what the caller
  /// gets; its first event is the call itself. Empty the second time.
  std::vector<profile_event> close();

private:
  const std::shared_ptr<event_collector> events_;
  const std::string name_;
  const std::int64_t number_;
  const std::optional<profile_options> callers_;
  std::shared_ptr<event_collector> process_;
  const std::uint64_t thread_ = at::RecordFunction::currentThreadId();
  const std::int64_t began_ = profile_time();
  bool closed_ = false;
};

/// The profile of a call that has arrived; null: it is not profiled. Hot path: a relaxed load.
std::shared_ptr<call_profile> begin_call_profile(const envelope_header& header,
                                                 const worker_info& self, const worker_info& caller,
                                                 std::string_view function);
inline std::shared_ptr<call_profile> profile_of_call(const envelope_header& header,
                                                     const worker_info& self,
                                                     const worker_info& caller,
                                                     std::string_view function) {
  if (!header.profiled && !process_is_profiled.load(std::memory_order_relaxed)) return nullptr;
  return begin_call_profile(header, self, caller, function);
}

/// While it lives, the thread handles a message to its actor, which the server-wide profile
/// records.
class profiled_message {
public:
  /// Begins to record the message, of a type of that name, that a node `from` has sent to an actor
  /// of `self`. nullptr: there is no such profile.
  static std::unique_ptr<profiled_message> begin(std::string_view message, const worker_info& from,
                                                 const worker_info& self) noexcept;
  explicit profiled_message(std::shared_ptr<call_profile> of) : of_(of), here_(of->events()) {}
  ~profiled_message();

private:
  const std::shared_ptr<call_profile> of_;
  const collecting here_;
};

}  // namespace troupe::detail
