#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "troupe/transport/store/store.hpp"
#include "troupe/transport/store/store_wire.hpp"
#include "troupe/transport/store/tcp/store_channel.hpp"
#include "troupe/transport/store/tcp/store_handshake.hpp"
#include "troupe/transport/system/socket.hpp"

namespace troupe::transport {

/// A connection of the server: reads bytes until the next part is complete, and writes bytes. What
/// they mean is the business of the server. Not thread-safe.
class tcp_store_connection {
public:
  /// The state of the connection. Up to `proof` it is a stranger's.
  enum class stage { greeting, proof, length, body, waiting, replying };

  tcp_store_connection(std::uint64_t id, unique_fd fd, const job_secret& secret,
                       const store_handshake::nonce& server);

  enum class progress { complete, blocked, closed };

  /// Starts to read `bytes` bytes, as stage `next`. Memory grows with what arrives, not with what
  /// was announced.
  void expect(stage next, std::size_t bytes);

  /// Reads; `complete` when all of it is in `input`.
  progress receive();
  std::span<const std::byte> input() const { return {in_.data(), have_}; }
  /// The same, to be decrypted in place.
  std::span<std::byte> sealed_input() { return {in_.data(), have_}; }

  /// Starts to write `output`: stage `replying`.
  void reply(store::bytes output);

  /// Writes the rest of the output; `complete` when nothing is left.
  progress flush();
  std::size_t output_left() const { return out_.size() - sent_; }

  bool is_stranger() const { return at == stage::greeting || at == stage::proof; }

  const std::uint64_t id;
  const unique_fd fd;
  const socket_address peer;
  store_handshake handshake;
  std::optional<store_channel> channel;  ///< once it has proved itself
  stage at = stage::greeting;
  store_request request;
  std::optional<time_point> timer;  ///< when the server checks it again
  std::uint32_t events = 0;         ///< the events that epoll watches

private:
  store::bytes in_;
  std::size_t have_ = 0;
  std::size_t need_ = 0;
  store::bytes out_;
  std::size_t sent_ = 0;
};

}  // namespace troupe::transport
