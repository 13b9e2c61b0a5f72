#include "troupe/transport/store/tcp/tcp_store_connection.hpp"

#include <algorithm>
#include <cerrno>

namespace troupe::transport {

namespace {

constexpr std::size_t first_room = 64 * 1024;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

tcp_store_connection::tcp_store_connection(std::uint64_t id, unique_fd fd, const job_secret& secret,
                                           const store_handshake::nonce& server)
    : id(id), fd(std::move(fd)), peer(peer_address(this->fd.get())), handshake(secret, server) {
  expect(stage::greeting, sizeof(store_handshake::greeting));
}

void tcp_store_connection::expect(stage next, std::size_t bytes) {
  at = next;
  have_ = 0;
  need_ = bytes;
  in_.resize(std::min(bytes, first_room));
  // A connection that once carried a large value does not keep its memory.
  if (in_.capacity() > 4 * first_room) in_.shrink_to_fit();
}

tcp_store_connection::progress tcp_store_connection::receive() {
  while (have_ < need_) {
    if (have_ == in_.size()) in_.resize(std::min(need_, 2 * in_.size()));
    const auto n = recv(fd.get(), in_.data() + have_, in_.size() - have_, 0);
    if (n == 0) return progress::closed;
    if (n < 0) return would_block() ? progress::blocked : progress::closed;
    have_ += static_cast<std::size_t>(n);
  }
  return progress::complete;
}

void tcp_store_connection::reply(store::bytes output) {
  at = stage::replying;
  out_ = std::move(output);
  sent_ = 0;
}

tcp_store_connection::progress tcp_store_connection::flush() {
  while (sent_ < out_.size()) {
    const auto n = send(fd.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (n < 0) return would_block() ? progress::blocked : progress::closed;
    sent_ += static_cast<std::size_t>(n);
  }
  out_ = {};
  sent_ = 0;
  return progress::complete;
}

}  // namespace troupe::transport
