#include "transport/rendezvous/rendezvous.hpp"

#include <fmt/format.h>

#include <exception>

#include "messages/error.hpp"
#include "transport/rendezvous/handlers.hpp"
#include "transport/rendezvous/meeting.hpp"

namespace troupe::transport {

namespace {

roster meet(rendezvous_plan plan, const rendezvous_options& options, std::shared_ptr<store> place,
            const address_function& address_of_this_node) {
  const auto who = fmt::format("rank {} of {}", plan.rank, plan.world_size);
  rendezvous_meeting meeting(std::move(plan), options, std::move(place));
  // Only the rendezvous' own failures are translated: what the caller's function throws is theirs.
  std::exception_ptr theirs;
  const auto guarded = [&](const pre_roster& r) {
    try {
      return address_of_this_node(r);
    } catch (...) {
      theirs = std::current_exception();
      throw;
    }
  };
  try {
    meeting.join();
    return meeting.gather(guarded);
  } catch (const error& e) {
    meeting.leave();
    if (theirs) std::rethrow_exception(theirs);
    if (e.code() != errc::store_error && e.code() != errc::decode_error) throw;
    throw rendezvous_error(fmt::format("{}: {}", who, e.fault().text));
  } catch (...) {
    meeting.leave();
    throw;
  }
}

}  // namespace

void roster::close(std::chrono::milliseconds limit, std::span<const std::uint32_t> gone) {
  if (session) session->close(limit, gone);
}

roster rendezvous(const rendezvous_options& options, const address_function& address_of_this_node) {
  auto asked = options;
  if (auto place = ask_rendezvous_handler(asked, false))
    return rendezvous(std::move(place), asked, address_of_this_node);
  return meet(make_plan(options, true), options, nullptr, address_of_this_node);
}

roster rendezvous(std::shared_ptr<store> meeting_place, const rendezvous_options& options,
                  const address_function& address_of_this_node) {
  if (!meeting_place) throw invalid_argument("a rendezvous needs a store to meet in");
  return meet(make_plan(options, false), options, std::move(meeting_place), address_of_this_node);
}

}  // namespace troupe::transport
