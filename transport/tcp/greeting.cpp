#include "troupe/transport/tcp/greeting.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace troupe::transport::tcp {

greeting::greeting(const job_secret& secret, unique_fd fd, const stream_claim& claim, peer& to)
    : proof_(secret), fd_(std::move(fd)), step_(step::connecting), claim_(claim), to_(&to) {}

greeting::greeting(const job_secret& secret, unique_fd fd, const socket_address& from)
    : proof_(secret), fd_(std::move(fd)), step_(step::awaits_hello), from_(from) {}

greeting::outcome greeting::fail(std::string why, int error) {
  why_ = std::move(why);
  error_ = error;
  return outcome::failed;
}

void greeting::set_failed(int error) { fail(std::strerror(error), error); }

// Messages of a handshake fit into the buffer of a new connection: what does not go at once never
// will.
bool greeting::send(std::span<const std::byte> bytes) {
  ssize_t n;
  do {
    n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(bytes.size());
}

// `proven`: `wanted` bytes have come. Not one more is read: what follows belongs to the stream.
greeting::outcome greeting::read(std::size_t wanted) {
  while (here_ < wanted) {
    const auto n = ::recv(fd_.get(), in_.data() + here_, wanted - here_, MSG_DONTWAIT);
    if (n > 0) {
      here_ += static_cast<std::size_t>(n);
    } else if (n == 0) {
      gone_ = true;
      return fail(here_ == 0 && step_ == step::awaits_hello ? "it has said nothing"
                                                            : peer_left().text);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return outcome::waits;
    } else if (errno != EINTR) {
      gone_ = errno == ECONNRESET;
      return fail(std::strerror(errno), errno);
    }
  }
  here_ = 0;
  return outcome::proven;
}

greeting::outcome greeting::advance() {
  switch (step_) {
    case step::connecting: {
      int error = 0;
      socklen_t length = sizeof error;
      getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      if (error != 0) return fail(std::strerror(error), error);
      const auto there = peer_address(fd_.get());
      if (there.length == 0) return outcome::waits;
      // TCP connects a socket to itself when no process listens and the kernel happens to pick the
      // target as the source port.
      const auto here = local_address(fd_.get());
      if (here.port() == there.port() && here.has_host_of(there))
        return fail(std::strerror(ECONNREFUSED), ECONNREFUSED);
      // Message 1 of the handshake (handshake.hpp).
      if (!send(proof_.greet(claim_))) return fail("the connection broke at once");
      step_ = step::awaits_challenge;
      [[fallthrough]];
    }
    case step::awaits_challenge: {
      // Message 2; the answer to it is message 3, the last.
      if (const auto done = read(sizeof(handshake::challenge)); done != outcome::proven)
        return done;
      handshake::answer answer;
      if (!proof_.meet(std::span(in_).first<sizeof(handshake::challenge)>(), answer))
        return fail("the listener has not proved knowledge of the job's secret");
      if (!send(answer)) return fail("the connection broke at once");
      return outcome::proven;
    }
    case step::awaits_hello: {
      // Message 1. It may be a replay: nothing is fresh before message 3.
      if (const auto done = read(sizeof(handshake::hello)); done != outcome::proven) return done;
      const auto claim = proof_.read(in_);
      if (!claim) return fail("it has not proved knowledge of the job's secret");
      claim_ = *claim;
      return outcome::greeted;
    }
    case step::parked: {  // only its end can be noticed
      std::byte any;
      const auto n = ::recv(fd_.get(), &any, 1, MSG_DONTWAIT | MSG_PEEK);
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return outcome::waits;
      return fail(n > 0 ? "it speaks out of turn" : peer_left().text);
    }
    case step::awaits_answer: {
      // Message 3: now both ends have proved themselves.
      if (const auto done = read(sizeof(handshake::answer)); done != outcome::proven) return done;
      if (!proof_.admit(std::span(in_).first<sizeof(handshake::answer)>()))
        return fail("it has not proved knowledge of the job's secret");
      return outcome::proven;
    }
  }
  return fail("unreachable");
}

// Message 2.
greeting::outcome greeting::respond() {
  if (!send(proof_.respond())) return fail("the connection broke at once");
  step_ = step::awaits_answer;
  return outcome::waits;
}

std::shared_ptr<stream> greeting::make_stream() {
  return std::make_shared<stream>(std::move(fd_), claim_.kind,
                                  dials() ? stream::role::dialer : stream::role::listener,
                                  claim_.protection, proof_.keys());
}

}  // namespace troupe::transport::tcp
