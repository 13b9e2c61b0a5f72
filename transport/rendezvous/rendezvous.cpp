#include "transport/rendezvous/rendezvous.hpp"

#include <fmt/format.h>

#include <exception>

#include "messages/error.hpp"
#include "messages/log.hpp"
#include "transport/rendezvous/handlers.hpp"
#include "transport/rendezvous/meeting.hpp"

namespace troupe::transport {

namespace {

// The others may have been started at the same time, and be on their way.
constexpr std::chrono::seconds decline_limit{2};

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
  rendezvous_plan plan;
  try {
    plan = make_plan(options, true);
  } catch (const error& e) {
    decline_rendezvous(options, e.fault().text);
    throw;
  }
  return meet(std::move(plan), options, nullptr, address_of_this_node);
}

void decline_rendezvous(const rendezvous_options& options, const std::string& why) noexcept {
  try {
    auto how = options;
    how.timeout = decline_limit;
    auto plan = make_absentees_plan(how);
    if (plan.world_size == 1 && plan.rank == 0) return;  // there is nobody else
    rendezvous_meeting meeting(std::move(plan), how, nullptr);
    try {
      meeting.decline(why);
    } catch (const error& e) {
      log().debug("the other ranks were not told that this one does not come: {}", e.what());
    }
    meeting.leave();
  } catch (...) {
    // Where the others are is not known.
  }
}

roster rendezvous(std::shared_ptr<store> meeting_place, const rendezvous_options& options,
                  const address_function& address_of_this_node) {
  if (!meeting_place) throw invalid_argument("a rendezvous needs a store to meet in");
  return meet(make_plan(options, false), options, std::move(meeting_place), address_of_this_node);
}

}  // namespace troupe::transport
