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

/// What the handler of a URL scheme is asked, by the process that founds or joins a job.
struct rendezvous_request {
  std::string url;     ///< the whole init_method
  std::string scheme;  ///< the part before "://"
  std::string rest;    ///< the part behind it, up to a "?"

  /// The query, without rank and world_size.
  std::vector<std::pair<std::string, std::string>> query;

  /// As the program, the URL or the environment says; empty: not known yet. Of a joiner: the rank
  /// of a member that has left, or nothing.
  std::optional<std::uint32_t> rank, world_size;
  bool joins_running = false;  ///< joins a running job, whose founders have met by the same URL

  /// For everything together, the handler's own time included.
  std::chrono::milliseconds timeout{0};
};

/// The place of a rendezvous.
struct rendezvous_answer {
  /// A store that all ranks of the job see, for as long as they need it; see `rendezvous`, which
  /// takes it. A process that can read it can join a job that was given no secret.
  std::shared_ptr<store> place;

  /// Set if the handler knows better than the request; ignored for a joiner.
  std::optional<std::uint32_t> rank{}, world_size{};
};

/// Called on the thread that founds or joins a job, by several at a time if the program does so.
/// Its exceptions go to the caller that founds or joins.
using rendezvous_handler = std::function<rendezvous_answer(const rendezvous_request&)>;

/// From now on, jobs of this process meet at "SCHEME://..." where `handler` says. Schemes are lower
/// case letters, digits, '+', '-' and '.', with a letter first. Throws invalid_argument for an
/// invalid scheme, for env, tcp and file, for one that has a handler, and without a handler. Any
/// thread.
void register_rendezvous_handler(const std::string& scheme, rendezvous_handler handler);

/// Running calls go on. False if there was none. Any thread.
bool unregister_rendezvous_handler(const std::string& scheme);

/// Asks the handler for the scheme of `options.init_method`; null if there is none. Takes up rank
/// and world size, and takes the time that the handler took off `options.timeout`. Throws
/// rendezvous_error for a handler that gives no store, and what the handler throws.
std::shared_ptr<store> ask_rendezvous_handler(rendezvous_options& options, bool joiner);

/// Whether the scheme of `init_method` has a handler.
bool has_rendezvous_handler(const std::string& init_method);

}  // namespace troupe::transport
