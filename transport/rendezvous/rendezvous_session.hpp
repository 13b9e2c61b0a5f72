#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "troupe/transport/rendezvous/rendezvous_config.hpp"
#include "troupe/transport/rendezvous/published_secret.hpp"
#include "troupe/transport/store/file_store.hpp"
#include "troupe/transport/store/store.hpp"
#include "troupe/transport/store/tcp/tcp_store.hpp"
#include "troupe/transport/store/tcp/tcp_store_server.hpp"

namespace troupe::transport {

/// How this process reaches the place where a job meets. Its parts end in reverse order: nobody
/// looks for a server that has gone.
struct meeting_place {
  std::shared_ptr<store> base;
  std::shared_ptr<tcp_store> client;             ///< the same, if it is on the network
  std::shared_ptr<file_store> file;              ///< the same, if it is in a file
  std::shared_ptr<tcp_store_server> server;      ///< if this process serves it
  std::shared_ptr<std::vector<unique_fd>> kept;  ///< with it: other addresses of its name
  std::shared_ptr<published_secret> published;   ///< if it has left the secret for the others
  std::optional<job_secret> secret;              ///< the job's

  /// A store that the program has given: without a secret from outside, one is kept in it.
  static meeting_place in_store(const rendezvous_plan& plan, std::shared_ptr<store> own);

  /// The file that `plan` names.
  static meeting_place in_file(const rendezvous_plan& plan, time_point deadline);

  /// Whom the store turned away; empty if nobody or unknown.
  std::string refusals() const;
};

/// Says in the log which secret it is and where it lies; never the secret itself. For rank 0 and
/// for newcomers; `one_host`: all that is there are on one, as far as is known.
void tell_secret(const rendezvous_plan& plan, const meeting_place& place, bool one_host);

/// A rank's part in one generation of a meeting place: from joining to saying goodbye.
///
/// A place can be met at again while others still wind down from the last time: each generation has
/// its own prefix, and a rank that has said goodbye in one goes to the next.
class rendezvous_session {
public:
  rendezvous_session(meeting_place place, std::uint64_t generation, std::uint32_t rank,
                     std::uint32_t world_size);

  /// Says goodbye if it joined; waits for nobody.
  ~rendezvous_session();

  rendezvous_session(const rendezvous_session&) = delete;
  rendezvous_session& operator=(const rendezvous_session&) = delete;

  /// The keys of the rendezvous itself, and those of who uses the job's store.
  const std::shared_ptr<store>& keys() const noexcept { return keys_; }
  const std::shared_ptr<store>& user_keys() const noexcept { return user_keys_; }
  const meeting_place& place() const noexcept { return place_; }

  /// From now on a goodbye is due.
  void joined() noexcept { joined_ = true; }

  /// Has this rank been here before and left, or have all?
  bool is_over();

  /// See roster::close.
  void close(std::chrono::milliseconds limit, std::span<const std::uint32_t> gone = {}) noexcept;

  /// After a failure: waits until those who are connected have read why and left. Who keeps the
  /// store, in a file everybody, waits until all ranks have, for a second at most and no longer
  /// than `limit`, as some may never come.
  void give_up(std::chrono::milliseconds limit) noexcept;

private:
  void end(std::chrono::milliseconds goodbye, std::chrono::milliseconds wait_for_others,
           std::chrono::milliseconds limit, std::span<const std::uint32_t> gone) noexcept;
  void say_goodbye(std::chrono::milliseconds wait_for_others, std::span<const std::uint32_t> gone);

  meeting_place place_;
  std::uint32_t rank_;
  std::uint32_t world_size_;
  std::shared_ptr<store> keys_;
  std::shared_ptr<store> user_keys_;
  bool joined_ = false;
  bool closed_ = false;
};

}  // namespace troupe::transport
