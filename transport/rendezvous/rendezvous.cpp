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

roster meet(rendezvous_config config, const rendezvous_options& options,
            std::shared_ptr<store> place, const address_function& address_of_this_node) {
  const auto who = fmt::format("rank {} of {}", config.rank, config.world_size);
  rank_exchange exchange(std::move(config), options, std::move(place));
  // Only the rendezvous' own failures are translated: exceptions of the caller's function are
  // passed on.
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
    exchange.join();
    return exchange.gather(guarded);
  } catch (const error& e) {
    exchange.leave();
    if (theirs) std::rethrow_exception(theirs);
    if (e.code() != errc::store_error && e.code() != errc::decode_error) throw;
    throw rendezvous_error(fmt::format("{}: {}", who, e.fault().text));
  } catch (...) {
    exchange.leave();
    throw;
  }
}

// Notifies the others in `place`, or, where that is null, where the options say.
void decline(std::shared_ptr<store> place, const rendezvous_options& how,
             const std::string& why) noexcept {
  try {
    auto config = make_absent_config(how, !place);
    if (config.world_size == 1 && config.rank == 0) return;  // there are no others
    rank_exchange exchange(std::move(config), how, std::move(place));
    try {
      exchange.decline(why);
    } catch (const error& e) {
      log().debug("the other ranks could not be notified that this one does not come: {}",
                  e.what());
    }
    exchange.leave();
  } catch (...) {
    // Where the others meet is not known.
  }
}

// Invalid options of one rank are reported to all.
rendezvous_config config_or_decline(const rendezvous_options& options,
                                    const std::shared_ptr<store>& place) {
  try {
    return make_config(options, !place);
  } catch (const error& e) {
    auto how = options;
    how.timeout = decline_limit;
    decline(place, how, e.fault().text);
    throw;
  }
}

}  // namespace

roster rendezvous(const rendezvous_options& options, const address_function& address_of_this_node) {
  auto asked = options;
  if (auto place = ask_rendezvous_handler(asked, false))
    return rendezvous(std::move(place), asked, address_of_this_node);
  return meet(config_or_decline(options, nullptr), options, nullptr, address_of_this_node);
}

void decline_rendezvous(const rendezvous_options& options, const std::string& why) noexcept {
  try {
    auto how = options;
    how.timeout = decline_limit;
    auto place = ask_rendezvous_handler(how, false);
    decline(std::move(place), how, why);
  } catch (...) {
    // The handler does not know either.
  }
}

roster rendezvous(std::shared_ptr<store> in_store, const rendezvous_options& options,
                  const address_function& address_of_this_node) {
  if (!in_store) throw invalid_argument("a rendezvous needs a store to meet in");
  auto config = config_or_decline(options, in_store);
  return meet(std::move(config), options, std::move(in_store), address_of_this_node);
}

}  // namespace troupe::transport
