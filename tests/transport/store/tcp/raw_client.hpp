#pragma once

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <span>
#include <utility>

#include "tests/transport/store/store_fixture.hpp"
#include "troupe/transport/store/store_wire.hpp"
#include "troupe/transport/store/tcp/store_channel.hpp"

// A client of a store that sends what it likes.
namespace troupe::transport::test {

/// A connection that has sent nothing yet.
inline unique_fd connect_raw(const endpoint& where) {
  auto result = connect_to(loopback(where.port), deadline_after(wait_limit));
  EXPECT_TRUE(result.fd);
  return std::move(result.fd);
}

/// True if the other side ends the connection within `limit`.
inline bool ended(int fd, std::chrono::milliseconds limit) {
  std::array<std::byte, 256> ignored;
  const auto deadline = deadline_after(limit);
  while (wait_readable(fd, deadline)) {
    const auto n = recv(fd, ignored.data(), ignored.size(), 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return true;
  }
  return false;
}

/// Proves the secret on a connection that has sent nothing yet.
inline store_link prove(const served_store& s, unique_fd on) {
  const int fd = on.get();
  store_handshake handshake(s.secret);
  store_handshake::challenge challenge;
  store_handshake::answer answer;
  EXPECT_EQ(write_all(fd, handshake.greet(), deadline_after(wait_limit)), io_result::done);
  EXPECT_EQ(read_all(fd, challenge, deadline_after(wait_limit)), io_result::done);
  EXPECT_EQ(handshake.meet(challenge, answer), store_handshake::verdict::accepted);
  EXPECT_EQ(write_all(fd, answer, deadline_after(wait_limit)), io_result::done);
  return {std::move(on),
          std::make_unique<store_channel>(handshake.session(), store_channel::side::client),
          {}};
}

/// A connection that has proven the secret and can send what it likes.
inline store_link connect_proven(served_store& s) { return prove(s, connect_raw(s.where())); }

/// Sends `body` as a request.
inline void write_request(const store_link& on, const store::bytes& body) {
  EXPECT_EQ(write_all(on.fd.get(), on.channel->seal(body), deadline_after(wait_limit)),
            io_result::done);
}

/// The answer to what has been sent.
inline store_reply read_reply(const store_link& on) {
  const int fd = on.fd.get();
  std::uint32_t length = 0;
  const auto limit = deadline_after(wait_limit);
  EXPECT_EQ(read_all(fd, std::as_writable_bytes(std::span(&length, 1)), limit), io_result::done);
  store::bytes body(length + store_channel::tag_size);
  EXPECT_EQ(read_all(fd, body, limit), io_result::done);
  const auto reply = on.channel->open(body);
  EXPECT_TRUE(reply);
  return decode_store_reply(reply.value_or(std::span<const std::byte>()));
}

}  // namespace troupe::transport::test
