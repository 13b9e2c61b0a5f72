#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "troupe/messages/envelope/frame.hpp"
#include "troupe/messages/memory/payload.hpp"

namespace troupe::transport {

/// A node's place in its job, 0 to world size - 1.
using rank_t = std::uint32_t;

/// For people.
inline std::string rank_name(rank_t rank) { return "rank " + std::to_string(rank); }

using troupe::incoming_payload;
using troupe::memory_place;
using troupe::outgoing_payload;

/// A whole message: the envelope (8-aligned, a few KiB at most) and the payloads of its large
/// tensors.
struct incoming_message {
  rank_t from = 0;
  frame envelope;
  std::vector<incoming_payload> payloads;
};

/// The memory that payloads are received into. Thread-safe.
class payload_pool {
public:
  virtual ~payload_pool() = default;

  /// Returns `size` bytes, 64-aligned; the memory goes back when the last pointer is dropped, on
  /// any thread. Throws std::bad_alloc.
  virtual std::shared_ptr<std::byte> allocate(std::size_t size, memory_place place) = 0;
};

/// How the connection to a peer ended.
enum class loss_kind : std::uint8_t {
  ended,   ///< its process has ended, for certain
  left,    ///< it has closed the connection, or was destroyed
  broken,  ///< it cannot be reached, or has sent malformed data; it may be alive
};

struct peer_loss {
  loss_kind kind = loss_kind::broken;
  std::string text;  ///< for people: "its process has ended"
};

inline peer_loss peer_left() { return {loss_kind::left, "it closed the connection"}; }

/// Receives what arrives at a transport. Called only while `progress` runs, on its thread. An
/// implementation only queues; it never calls back into the transport.
class sink {
public:
  virtual ~sink() = default;

  virtual void on_message(incoming_message&& message) = 0;

  /// Called exactly once for each peer that is lost; nothing of that peer is delivered afterwards.
  virtual void on_peer_lost(rank_t peer, peer_loss why) = 0;
};

/// The lanes that a peer is reached by, and why.
struct route {
  rank_t peer = 0;
  std::string backend;  ///< "ucx", "tcp", "loopback", "virtual"
  std::string lanes;    ///< for example "posix/memory for messages, cma/memory for bulk"
  std::string reason;   ///< why these and no better ones
};

/// How tensors of one kind and size reach a peer, and why so.
struct tensor_way {
  std::string which;      ///< "any", "in the arena", "elsewhere, or a part of its storage"
  std::size_t from = 0;   ///< bytes
  std::size_t below = 0;  ///< bytes; 0: any number
  std::string way;        ///< "in the message", "lent", "copied once, then lent", "sent"
  std::string reason;
};

struct counters {
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_sent = 0;  ///< envelopes and payloads
  std::uint64_t bytes_received = 0;
  std::uint64_t strangers = 0;  ///< messages dropped because no known node sent them
  std::uint64_t lent = 0;       ///< bytes of this node's memory that peers use now
  std::uint64_t borrowed = 0;   ///< bytes of peers' memory that this node uses now
};

/// What moves messages between the nodes of a job.
///
/// Messages from one node to another with the same non-zero `order` are delivered in the order they
/// were sent; others may overtake each other while their payloads are in transfer (a large tensor
/// never delays an unrelated small call). While both nodes live, every message is delivered exactly
/// once.
///
/// Threads: `address` on the thread that has made the transport, before it is used. Then `send`,
/// `wake`, `routes`, `ways_to`, `would_lend`, `device_way`, `leases`, `count`, `idle`, `delivered`,
/// `holds_leases`, `add_peer` and `close_peer` on any thread, at any time; `progress`, `arm` and
/// `event_fd` on one thread at a time, which may change.
class transport {
public:
  virtual ~transport() = default;

  /// Opaque bytes by which other nodes reach this one; the rendezvous exchanges them.
  virtual std::vector<std::byte> address() const = 0;

  /// Makes `peer` reachable. Messages that it sent before are held back until then. Throws
  /// transport_error with the reason if it cannot be reached, is connected already, or was lost and
  /// this is still its old address.
  virtual void add_peer(rank_t peer, std::span<const std::byte> address) = 0;

  /// Sends one message. Returns at once; small messages have been handed to the network when it
  /// returns (no allocation, no lock but the worker's own, and no system call but, between hosts,
  /// the one that writes it). Throws peer_lost when
  /// the peer is lost and transport_error when it was never added. Returns true when `progress`
  /// must be called before the whole message is sent.
  virtual bool send(rank_t peer, std::uint64_t order, frame&& envelope,
                    std::vector<outgoing_payload>&& payloads = {}) = 0;

  /// Moves what can be moved and delivers to the sink. Returns the number of events; 0 if there was
  /// nothing to do.
  virtual unsigned progress() = 0;

  /// Readable after a successful `arm` as soon as `progress` has something to do. Level-triggered;
  /// a call of `progress` or `arm` clears it.
  virtual int event_fd() const = 0;

  /// Prepares to sleep on `event_fd`. False: there is something to do already, call `progress`
  /// instead.
  virtual bool arm() = 0;

  /// Makes `event_fd` readable, from any thread.
  virtual void wake() = 0;

  /// True when everything that was sent has left this node, or was dropped with its peer.
  virtual bool idle() const = 0;

  /// True when everything that was sent has arrived, or was dropped with its peer, as far as this
  /// kind of transport can lose what is in transit.
  virtual bool delivered() const { return idle(); }

  /// True while peers that are connected have yet to copy memory of devices that was leased to them
  /// (`leases`): it ends with this process.
  virtual bool holds_leases() const { return false; }

  /// Ends the connection to `peer` without a call of the sink; the peer's sink gets `on_peer_lost`.
  /// Nothing more of the peer is delivered. What was sent still goes out, for a second at most,
  /// unless `force`. Takes effect in `progress`.
  virtual void close_peer(rank_t peer, bool force) = 0;

  virtual std::vector<route> routes() const = 0;

  /// How tensors that do not fit into a message's envelope reach `peer`, the smallest first. Empty:
  /// it is not reached.
  virtual std::vector<tensor_way> ways_to(rank_t peer) const {
    for (const auto& one : routes())
      if (one.peer == peer)
        return {{"any", 0, 0, "sent by " + one.backend + ": " + one.lanes, one.reason}};
    return {};
  }

  /// Whether the bytes at `data`, all of a tensor's storage, would be lent to `peer` where they
  /// lie, in a message that is sent now and lends so many bytes `beside`. Any thread; a guess,
  /// since others may send meanwhile.
  virtual bool would_lend(rank_t, const std::byte* /*data*/, std::size_t /*size*/,
                          std::size_t /*beside*/) const {
    return false;
  }

  /// How a tensor on the device `here` of this node reaches the device `there` of `peer`. Neither
  /// is host memory. Any thread.
  virtual tensor_way device_way(rank_t /*peer*/, const memory_place& /*here*/,
                                const memory_place& /*there*/) const {
    return {"", 0, 0, "copied through host memory", "the transport leases no memory of devices"};
  }

  /// Whether a payload on the device `here` of this node can be leased to `peer`, whose process
  /// copies it from there to its own device `there`; if not, and unless it is too early, that is
  /// logged once. `problem`: why the memory of this payload cannot be leased, if so. Throws
  /// transport_error where such a payload must not be copied through host memory. A payload that is
  /// to be leased has that device as its `place`, and `data` is not looked at: the receiver gets
  /// one of the same size and place without bytes, and `keep` lasts until the receiver has dropped
  /// that, or its process has ended. Any thread.
  virtual bool leases(rank_t /*peer*/, const memory_place& /*here*/, const memory_place& /*there*/,
                      const std::string& /*problem*/) const {
    return false;
  }

  virtual counters count() const = 0;
};

}  // namespace troupe::transport
