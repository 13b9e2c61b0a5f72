#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "troupe/transport/delivery/assembly.hpp"
#include "troupe/transport/virtual/fabric.hpp"

namespace troupe::transport::virtual_net {

/// One object's end of the way to another one: delivers exactly once over datagrams that are lost,
/// doubled and reordered.
///
/// Datagrams are numbered from 0 in each direction; at most `window` from the first unacknowledged
/// one are under way. Acknowledgements are cumulative with a mask of what lies beyond a gap (as
/// TCP, RFC 2018), travel with datagrams of the other direction or, after a delay, alone. What is
/// not acknowledged is sent again after a time measured as in RFC 6298 (with echoes, RFC 7323),
/// doubled each time nothing new is acknowledged. `assembly` makes messages of it and keeps their
/// order.
class connection {
public:
  static constexpr std::uint64_t window = 64;

  /// `unacknowledged` counts what is not, over all connections of the node.
  connection(fabric& net, const node_key& self, const node_key& peer, std::size_t& unacknowledged);
  ~connection() { drop(); }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  const node_key& peer() const noexcept { return peer_; }

  void send(std::uint64_t order, frame&& envelope, std::vector<outgoing_payload>&& payloads);

  /// Takes what a datagram says of the other direction.
  void acknowledged(const acknowledgement& ack);

  /// Takes a message's or payload's datagram and appends messages that are complete to `out`.
  /// False when it was here before. Throws what the pool and the assembly throw.
  bool take(const datagram& d, payload_pool& pool, std::vector<incoming_message>& out);

  /// False when the peer has acknowledged nothing for too long.
  bool alarmed(alarm::kind what);

  /// Nothing is unacknowledged.
  bool idle() const noexcept { return queue_.empty(); }

  /// Drops what is not acknowledged, and takes back the memory of payloads under way.
  void drop();

  /// The same, but payloads under way keep their memory until they arrive: the node has crashed.
  void forget();

  // Of the endpoint: how far this connection has come.
  bool added = false;                   ///< what arrives is handed out
  bool closing = false;                 ///< closed here; what was sent still goes out
  std::optional<peer_loss> over;        ///< over before it was added
  std::vector<incoming_message> early;  ///< what arrived before it was added

private:
  struct outgoing {
    std::shared_ptr<parcel> body;  // null: acknowledged
    virtual_time departed;         // the last time
  };

  void pump();
  void transmit(std::uint64_t number, bool again);
  virtual_time depart(const parcel& body);
  acknowledgement acknowledge();
  void want_acknowledgement();
  void measure(virtual_time echo);
  std::chrono::nanoseconds patience() const;
  void watch();

  fabric& net_;
  const node_key self_;
  const node_key peer_;
  std::size_t& unacknowledged_;

  // Sending.
  std::uint64_t messages_ = 0;
  std::uint64_t first_ = 0;  // number of the front of the queue
  std::uint64_t sent_ = 0;   // numbers below were sent
  std::deque<outgoing> queue_;
  virtual_time deadline_ = never;       // when the peer is lost
  virtual_time watch_ = never;          // when the alarm goes off
  unsigned fruitless_ = 0;              // rounds of sending again since something was acknowledged
  std::chrono::nanoseconds smooth_{0};  // round trip; 0: not yet measured
  std::chrono::nanoseconds spread_{0};
  virtual_time small_free_{};  // when the link has sent what is queued
  virtual_time bulk_free_{};

  // Receiving.
  std::uint64_t next_ = 0;
  std::uint64_t beyond_ = 0;
  virtual_time echo_ = never;
  unsigned unanswered_ = 0;
  virtual_time answer_at_ = never;
  virtual_time answer_alarm_ = never;
  assembly parts_;
};

}  // namespace troupe::transport::virtual_net
