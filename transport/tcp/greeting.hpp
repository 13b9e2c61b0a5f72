#pragma once

#include <array>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "troupe/transport/tcp/peer.hpp"

namespace troupe::transport::tcp {

/// A connection whose ends have not proved themselves yet, as this end sees it. Used by
/// the progressing thread only.
class greeting {
public:
  enum class step : std::uint8_t {
    connecting,        ///< dialer: the kernel has not connected it
    awaits_challenge,  ///< dialer: has said its hello
    awaits_hello,      ///< listener
    parked,            ///< listener: a hello for a node that has yet to be added here
    awaits_answer,     ///< listener: has sent its challenge
  };
  enum class outcome : std::uint8_t {
    waits,
    greeted,  ///< listener: `claim` is there; `respond` or `park`
    proven,   ///< make a stream of it
    failed,   ///< `why` says how
  };

  /// Dialer: connects to a place of `to`.
  greeting(const job_secret& secret, unique_fd fd, const stream_claim& claim, peer& to);
  /// Listener: somebody has connected.
  greeting(const job_secret& secret, unique_fd fd, const socket_address& from);

  int fd() const noexcept { return fd_.get(); }
  bool dials() const noexcept { return to_ != nullptr; }
  step at() const noexcept { return step_; }
  const stream_claim& claim() const noexcept { return claim_; }
  /// The node that is dialed; nullptr: this end listens.
  peer* to() const noexcept { return to_; }
  const socket_address& from() const noexcept { return from_; }
  const std::string& why() const noexcept { return why_; }
  /// Its other end has gone without a word that was wrong.
  bool gone() const noexcept { return gone_; }
  /// The errno of a connection that the kernel has not made.
  int error() const noexcept { return error_; }

  /// The socket can be read or written.
  outcome advance();

  /// Listener, after `greeted`.
  outcome respond();
  void park() noexcept { step_ = step::parked; }
  void unpark() noexcept { step_ = step::awaits_hello; }

  /// After `proven`.
  std::shared_ptr<stream> make_stream();

  /// Fails it from outside.
  void refuse(std::string why) { why_ = std::move(why); }
  void set_failed(int error);

  std::uint64_t id = 0;                                ///< in the transport's epoll set; 0: not yet
  unsigned index = 0;                                  ///< dialer: of the stream for large payloads
  std::size_t attempt = 0;                             ///< dialer: places tried before
  std::weak_ptr<const stream> beside;                  ///< bulk: of the connection for messages
  bool counted = false;                                ///< among the strangers
  steady::time_point said_at{};                        ///< dialer: its hello
  bool said_hello = false;                             ///< dialer: only the answer is waited for
  bool expected_failure = false;                       ///< it is a member, which calls again
  steady::time_point due = steady::time_point::max();  ///< it has failed by then
  std::list<std::unique_ptr<greeting>>::iterator place;

private:
  outcome fail(std::string why, int error = 0);
  bool send(std::span<const std::byte> bytes);
  outcome read(std::size_t wanted);

  handshake proof_;
  unique_fd fd_;
  step step_;
  stream_claim claim_;
  peer* const to_ = nullptr;
  const socket_address from_;
  std::array<std::byte, sizeof(handshake::hello)> in_;
  std::size_t here_ = 0;
  std::string why_;
  bool gone_ = false;
  int error_ = 0;
};

}  // namespace troupe::transport::tcp
