#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "troupe/transport/store/store.hpp"
#include "troupe/transport/store/tcp/store_handshake.hpp"
#include "troupe/transport/store/tcp/store_wire.hpp"
#include "troupe/transport/store/tcp/tcp_store_socket.hpp"

namespace troupe::transport {

/// One connection as the server sees it: bytes in, until the next thing is complete, and bytes out.
/// What they mean is the server's business. Not thread-safe.
class tcp_store_connection {
public:
  /// What the connection is doing. Up to `proof` it is a stranger's.
  enum class stage { greeting, proof, length, body, waiting, replying };

  tcp_store_connection(std::uint64_t id, unique_fd fd, const job_secret& secret);

  enum class progress { complete, blocked, closed };

  /// Next, `bytes` are to be read, and that is stage `next`. Memory grows with what arrives, not
  /// with what was announced.
  void expect(stage next, std::size_t bytes);

  /// Reads what is expected; `complete` when all of it is in `input`.
  progress receive();
  std::span<const std::byte> input() const { return {in_.data(), have_}; }

  /// Next, `output` is to be written: stage `replying`.
  void reply(store::bytes output);

  /// Writes what is left of the output; `complete` when nothing is.
  progress flush();
  std::size_t output_left() const { return out_.size() - sent_; }

  bool is_stranger() const { return at == stage::greeting || at == stage::proof; }

  const std::uint64_t id;
  const unique_fd fd;
  const socket_address peer;
  store_handshake handshake;
  stage at = stage::greeting;
  store_request request;
  std::optional<time_point> timer;  ///< when the server shall look again
  std::uint32_t events = 0;         ///< what epoll watches

private:
  store::bytes in_;
  std::size_t have_ = 0;
  std::size_t need_ = 0;
  store::bytes out_;
  std::size_t sent_ = 0;
};

}  // namespace troupe::transport
