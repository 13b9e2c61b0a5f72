#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "troupe/transport/rendezvous/published_secret.hpp"
#include "troupe/transport/rendezvous/rendezvous_config.hpp"
#include "troupe/transport/store/file_store.hpp"
#include "troupe/transport/store/store.hpp"
#include "troupe/transport/store/tcp/tcp_store.hpp"
#include "troupe/transport/store/tcp/tcp_store_server.hpp"

namespace troupe::transport {

/// This process's connection to the place of a rendezvous. Its members are destroyed in reverse
/// order: no client looks for a server that has ended.
struct rendezvous_place {
  std::shared_ptr<store> base;
  std::shared_ptr<tcp_store> client;         ///< the same, if it is on the network
  std::shared_ptr<file_store> file;          ///< the same, if it is in a file
  std::shared_ptr<tcp_store_server> server;  ///< if this process serves it
  std::shared_ptr<std::vector<unique_fd>>
      kept;  ///< with it: sockets on the other addresses of its name
  std::shared_ptr<published_secret> published;  ///< if it has published the secret
  std::optional<job_secret> secret;             ///< the job's

  /// A store that the program has given: if no secret was given, one is kept in it.
  static rendezvous_place in_store(const rendezvous_config& config, std::shared_ptr<store> own);

  /// The file that `config` names.
  static rendezvous_place in_file(const rendezvous_config& config, time_point deadline);

  /// The connections that the store refused; empty if there are none, or unknown.
  std::string refusals() const;
};

/// Logs where the secret comes from and where it is stored; never the secret itself. For rank 0 and
/// for joiners; `one_host`: all ranks are on one host, as far as is known.
void log_secret(const rendezvous_config& config, const rendezvous_place& place, bool one_host);

/// A rank's membership in one generation of a rendezvous place, from joining to its leave notice.
///
/// A place can be used again while others are still leaving from the last time: each generation has
/// its own prefix, and a rank that has left one goes to the next.
class rendezvous_session {
public:
  rendezvous_session(rendezvous_place place, std::uint64_t generation, std::uint32_t rank,
                     std::uint32_t world_size);

  /// Leaves if it joined; waits for no other rank.
  ~rendezvous_session();

  rendezvous_session(const rendezvous_session&) = delete;
  rendezvous_session& operator=(const rendezvous_session&) = delete;

  /// The keys of the rendezvous itself, and those of the users of the job's store.
  const std::shared_ptr<store>& keys() const noexcept { return keys_; }
  const std::shared_ptr<store>& user_keys() const noexcept { return user_keys_; }
  const rendezvous_place& place() const noexcept { return place_; }

  /// From now on a leave notice is due.
  void joined() noexcept { joined_ = true; }

  /// Whether this rank has been here before and left, or all have left.
  bool is_over();

  /// See roster::close.
  void close(std::chrono::milliseconds limit, std::span<const std::uint32_t> gone = {}) noexcept;

  /// After a failure: waits until connected ranks have read the reason and left. A rank that keeps
  /// the store (with a file, every rank) waits until all ranks have, for a second at most and no
  /// longer than `limit`, as some may never come.
  void give_up(std::chrono::milliseconds limit) noexcept;

private:
  void end(std::chrono::milliseconds leave_wait, std::chrono::milliseconds wait_for_others,
           std::chrono::milliseconds limit, std::span<const std::uint32_t> gone) noexcept;
  void leave(std::chrono::milliseconds wait_for_others, std::span<const std::uint32_t> gone);

  rendezvous_place place_;
  std::uint32_t rank_;
  std::uint32_t world_size_;
  std::shared_ptr<store> keys_;
  std::shared_ptr<store> user_keys_;
  bool joined_ = false;
  bool closed_ = false;
};

}  // namespace troupe::transport
