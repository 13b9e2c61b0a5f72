#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/transport/rendezvous/options.hpp"
#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

/// What a handler of a scheme of one's own is asked, by the process that wants to meet others.
struct rendezvous_request {
  std::string url;     ///< the whole init_method
  std::string scheme;  ///< what stands before "://"
  std::string rest;    ///< what stands behind, up to a "?"

  /// Behind that, without rank and world_size.
  std::vector<std::pair<std::string, std::string>> query;

  /// As the program, the URL or the environment says; empty: nobody has said it yet. Of a newcomer:
  /// the rank of a member who has gone, or nothing.
  std::optional<std::uint32_t> rank, world_size;
  bool newcomer = false;  ///< to a running job, whose founders have met by the same URL

  /// For everything together, what the handler takes included.
  std::chrono::milliseconds timeout{0};
};

/// Where to meet.
struct rendezvous_answer {
  /// A store that all ranks of the job see, for as long as they need it; see `rendezvous`, which
  /// takes it. Whoever can read it can join a job to which nobody has given a secret.
  std::shared_ptr<store> place;

  /// What the handler knows better than the request; a newcomer's do not count.
  std::optional<std::uint32_t> rank{}, world_size{};
};

/// Called on the thread that founds or joins a job, by several at a time if the program does so.
/// What it throws goes to who founds or joins.
using rendezvous_handler = std::function<rendezvous_answer(const rendezvous_request&)>;

/// From now on, jobs of this process meet at "SCHEME://..." where `handler` says. Schemes are lower
/// case letters, digits, '+', '-' and '.', with a letter first. Throws invalid_argument for another
/// one, for env, tcp and file, for one that has a handler, and without a handler. Any thread.
void register_rendezvous_handler(const std::string& scheme, rendezvous_handler handler);

/// Calls that are under way go on. False if there was none. Any thread.
bool unregister_rendezvous_handler(const std::string& scheme);

/// Asks the handler for the scheme of `options.init_method`; null if there is none. Takes up rank
/// and world size, and takes the time that the handler took off `options.timeout`. Throws
/// rendezvous_error for a handler that gives no store, and what the handler throws.
std::shared_ptr<store> ask_rendezvous_handler(rendezvous_options& options, bool newcomer);

/// Has the scheme of `init_method` a handler?
bool has_rendezvous_handler(const std::string& init_method);

}  // namespace troupe::transport
