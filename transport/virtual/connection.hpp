#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "troupe/transport/delivery/reassembly.hpp"
#include "troupe/transport/virtual/fabric.hpp"

namespace troupe::transport::virtual_net {

/// One end of the connection between two transport objects: delivers exactly once over datagrams
/// that are lost, duplicated and reordered.
///
/// Datagrams are numbered from 0 in each direction; at most `window` from the first unacknowledged
/// one are in transit. Acknowledgements are cumulative with a mask of what lies beyond a gap (as
/// TCP's, RFC 2018); they travel with datagrams of the other direction or, after a delay, alone.
/// What is not acknowledged is sent again after a timeout measured as in RFC 6298 (with echoes, RFC
/// 7323), which doubles each time nothing new is acknowledged. `reassembly` makes messages of it
/// and keeps their order.
class connection {
public:
  static constexpr std::uint64_t window = 64;

  /// `unacknowledged` counts the unacknowledged datagrams of all connections of the node.
  connection(fabric& net, const node_key& self, const node_key& peer, std::size_t& unacknowledged);
  ~connection() { drop(); }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  const node_key& peer() const noexcept { return peer_; }

  void send(std::uint64_t order, frame&& envelope, std::vector<outgoing_payload>&& payloads);

  /// Takes the acknowledgement that came with a datagram.
  void acknowledged(const acknowledgement& ack);

  /// Takes the datagram of a message or payload and appends messages that are complete to `out`.
  /// False when it had arrived before. Throws what the pool and the reassembly throw.
  bool take(const datagram& d, payload_pool& pool, std::vector<incoming_message>& out);

  /// False when the peer has acknowledged nothing for too long.
  bool alarmed(alarm::kind what);

  /// Nothing is unacknowledged.
  bool idle() const noexcept { return queue_.empty(); }

  /// Drops what is not acknowledged, and the memory of payloads in transit.
  void drop();

  /// The same, but payloads in transit keep their memory until they arrive: the node has crashed.
  void forget();

  // State of the endpoint that owns the connection.
  bool added = false;                   ///< what arrives is delivered
  bool closing = false;                 ///< closed here; what was sent still goes out
  std::optional<peer_loss> over;        ///< it ended before it was added
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
  std::chrono::nanoseconds retransmit_timeout() const;
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
  reassembly parts_;
};

}  // namespace troupe::transport::virtual_net
