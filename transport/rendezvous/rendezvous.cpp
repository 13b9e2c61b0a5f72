#include "troupe/transport/rendezvous/rendezvous.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/rendezvous/handlers.hpp"
#include "troupe/transport/rendezvous/rank_exchange.hpp"

namespace troupe::transport {

namespace {

using std::chrono::milliseconds;

// The others may have been started at the same time, and be on their way.
constexpr milliseconds decline_limit{2'000};

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

// Tells the others in `place`, or, where that is null, where the options say.
void decline(std::shared_ptr<store> place, rendezvous_options how,
             const std::string& why) noexcept {
  try {
    auto plan = make_absentees_plan(how, !place);
    if (plan.world_size == 1 && plan.rank == 0) return;  // there is nobody else
    rendezvous_meeting meeting(std::move(plan), how, std::move(place));
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

// What is wrong with the options of one rank, all hear.
rendezvous_plan plan_or_decline(const rendezvous_options& options,
                                const std::shared_ptr<store>& place) {
  try {
    return make_plan(options, !place);
  } catch (const error& e) {
    auto how = options;
    how.timeout = decline_limit;
    decline(place, std::move(how), e.fault().text);
    throw;
  }
}

}  // namespace

roster rendezvous(const rendezvous_options& options, const address_function& address_of_this_node) {
  auto asked = options;
  if (auto place = ask_rendezvous_handler(asked, false))
    return rendezvous(std::move(place), asked, address_of_this_node);
  return meet(plan_or_decline(options, nullptr), options, nullptr, address_of_this_node);
}

void decline_rendezvous(const rendezvous_options& options, const std::string& why) noexcept {
  try {
    auto how = options;
    how.timeout = decline_limit;
    auto place = ask_rendezvous_handler(how, false);
    decline(std::move(place), std::move(how), why);
  } catch (...) {
    // Nor does the handler know.
  }
}

roster rendezvous(std::shared_ptr<store> meeting_place, const rendezvous_options& options,
                  const address_function& address_of_this_node) {
  if (!meeting_place) throw invalid_argument("a rendezvous needs a store to meet in");
  auto plan = plan_or_decline(options, meeting_place);
  return meet(std::move(plan), options, std::move(meeting_place), address_of_this_node);
}

}  // namespace troupe::transport
