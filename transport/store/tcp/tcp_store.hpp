#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/store/store.hpp"
#include "troupe/transport/store/tcp/tcp_store_connect.hpp"
#include "troupe/transport/system/socket.hpp"

namespace troupe::transport {

struct store_request;
struct store_reply;

/// A store that a `tcp_store_server` serves, usually that of rank 0.
///
/// A waiting call holds a connection of its own, so threads do not block each other; idle
/// connections are kept for the next call. All are to the server that was found first: one that
/// was started again at the same address has other contents, and is refused.
class tcp_store final : public store {
public:
  /// Connects, trying again until `deadline` while no server listens at `where`. Throws store_error
  /// naming the address and the reason: no server, a host that is unknown or silent, or a server
  /// without the job's secret (reported after at most two seconds).
  tcp_store(endpoint where, const job_secret& secret, time_point deadline);

  /// The same with a secret that may not be available yet, and may change until a server has it:
  /// each attempt asks for it.
  tcp_store(endpoint where, const secret_source& secret, time_point deadline);

  using store::append;
  using store::get;
  using store::multi_get;
  using store::queue_push;
  using store::queue_try_pop;
  using store::set;
  using store::wait;
  void set(const std::string& key, std::span<const std::byte> value) override;
  bytes get(const std::string& key, milliseconds timeout) override;
  void wait(std::span<const std::string> keys, milliseconds timeout) override;
  bool check(std::span<const std::string> keys) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  bytes compare_set(const std::string& key, std::span<const std::byte> expected,
                    std::span<const std::byte> desired) override;
  void append(const std::string& key, std::span<const std::byte> value) override;
  bool delete_key(const std::string& key) override;
  std::uint64_t num_keys() override;
  std::vector<bytes> multi_get(std::span<const std::string> keys, milliseconds timeout) override;
  void multi_set(std::span<const std::string> keys, std::span<const bytes> values) override;
  void queue_push(const std::string& key, std::span<const std::byte> value) override;
  std::optional<bytes> queue_try_pop(const std::string& key, milliseconds timeout) override;
  std::uint64_t queue_len(const std::string& key) override;

  /// Where the server is.
  const endpoint& where() const noexcept { return where_; }

  /// This machine's address on the way to the server.
  socket_address local() const { return local_; }

  /// The secret that the server has.
  const job_secret& secret() const noexcept { return secret_; }

  /// The connections that the server has refused so far, as a clause for an error's text; empty if
  /// there were none.
  std::string refusals();

  /// Closes the idle connections; later calls fail, calls that wait go on.
  void close();

  /// Sets how long an answer that needs no waiting may take, and the time by which every call ends.
  void set_limits(milliseconds response, time_point not_after = time_point::max());

  static constexpr milliseconds default_response_limit{30'000};

private:
  std::vector<std::string> keys_with(const std::string& prefix) override;
  std::shared_ptr<store> make_clone() override;
  explicit tcp_store(tcp_store& original);
  store_link take_connection(time_point deadline);
  store_reply ask(const store_request& request, milliseconds timeout);
  store_reply call(const store_request& request, milliseconds timeout = milliseconds{0});
  store_reply exchange(store_link& link, const store_request& request, time_point deadline);

  [[noreturn]] void timed_out(milliseconds timeout, std::span<const std::string> missing) const;

  const endpoint where_;
  // Constant once connected.
  job_secret secret_;
  store_handshake::nonce server_;
  std::vector<socket_address> addresses_;
  socket_address local_;
  std::mutex mutex_;
  std::vector<store_link> idle_;
  bool closed_ = false;
  milliseconds response_limit_ = default_response_limit;
  time_point not_after_ = time_point::max();
};

}  // namespace troupe::transport
