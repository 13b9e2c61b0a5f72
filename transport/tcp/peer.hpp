#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "troupe/transport/delivery/rank_table.hpp"
#include "troupe/transport/delivery/reassembly.hpp"
#include "troupe/transport/delivery/retransmit_queue.hpp"
#include "troupe/transport/tcp/address.hpp"
#include "troupe/transport/tcp/stream.hpp"

namespace troupe::transport::tcp {

using steady = std::chrono::steady_clock;

/// A payload that arrives.
struct arriving_payload {
  incoming_payload payload;
  std::vector<bool> claimed;  ///< by chunk_unit: it comes, or has come
  std::size_t here = 0;
};

/// Identifies a payload of a peer.
struct payload_key {
  std::uint64_t sequence;
  std::uint32_t index;
  bool operator==(const payload_key&) const = default;
};
struct payload_key_hash {
  std::size_t operator()(const payload_key& key) const noexcept {
    return key.sequence * 0x9e3779b97f4a7c15ull ^ key.index;
  }
};

/// A payload that is to be sent over the bulk streams, from `next` on.
struct bulk_payload {
  retransmit_queue::message message;
  std::uint32_t index = 0;
  std::size_t next = 0;
};

/// Another node. Made by add_peer; lives as long as the transport, so that senders need no lock to
/// find it.
struct peer {
  enum class state : std::uint8_t { live, closing, gone };

  peer(rank_t rank_, address&& where_) : rank(rank_), where(std::move(where_)), parts(rank_) {}

  const rank_t rank;
  const address where;

  // ---- Sending. Under `mutex`, which is held while a message is written, never for bulk.
  std::mutex mutex;
  std::atomic<state> status{state::live};       ///< written under `mutex`
  std::string reason;                           ///< why it is not live
  std::atomic<std::uint64_t> next_sequence{0};  ///< of the next message; written under `mutex`
  retransmit_queue unacknowledged;              ///< its messages, in order
  std::shared_ptr<stream> messages;             ///< null: there is no connection
  /// Senders write to it themselves: the other side has said what it has received. Written under
  /// `mutex`.
  std::atomic<bool> open{false};
  std::atomic<bool> wanted{false};  ///< it shall be connected
  bool wants_write = false;         ///< epoll reports when `messages` can be written
  std::string lanes;                ///< for routes()

  /// A connection to it has broken. Bytes may have changed that were said to be frozen, by a
  /// pointer from before, so payloads are copied from now on; sent again, they do no harm.
  // Publishes nothing: one that is frozen for nothing is copied all the same.
  std::atomic<bool> copies{false};

  // ---- Bulk: senders add, the progressing thread sends. Under `bulk_mutex`.
  std::mutex bulk_mutex;
  std::deque<bulk_payload> bulk;
  bool smallest_next = false;  ///< the next chunk is of the payload with the least left to send
  bool window_full = false;    ///< payloads wait for acknowledgements; by the progressing thread
  std::atomic<std::size_t> bulk_unsent{0};  ///< payloads in `bulk`
  std::atomic<bool> bulk_busy{false};  ///< bulk streams have chunks that the kernel has not taken

  /// All of its messages below have arrived; those below `acknowledged` are acknowledged to it.
  // Written by the progressing thread, and `acknowledged` under `mutex`. They publish nothing but
  // themselves: an older number acknowledges less. Relaxed would do.
  std::atomic<std::uint64_t> expected{0};
  std::atomic<std::uint64_t> acknowledged{0};

  // ---- Used by the progressing thread only.
  reassembly parts;
  std::unordered_map<payload_key, arriving_payload, payload_key_hash> arriving;
  unique_fd process;                ///< of a peer on this host: readable once that has ended
  std::uint64_t process_watch = 0;  ///< its number in the epoll set
  std::vector<std::shared_ptr<stream>> bulk_in;
  std::vector<std::shared_ptr<stream>> bulk_out;
  std::size_t bulk_turn = 0;         ///< the stream of `bulk_out` that the next chunk goes to
  unsigned bulk_dials = 0;           ///< being connected
  std::vector<unsigned> bulk_again;  ///< to be connected again at `bulk_again_at`; their numbers
  steady::time_point bulk_again_at = steady::time_point::max();
  std::optional<steady::time_point> bulk_fails_since;  ///< no bulk stream was made since
  frame large_envelope;                                ///< being received
  std::uint64_t confirmed = 0;  ///< it has all messages below, as it has said
  bool confirming = false;      ///< is in backend::confirming_
  std::uint64_t owed_messages = 0, owed_bytes = 0;
  bool owing = false;     ///< is in backend::owing_
  bool dialing = false;   ///< a connection for messages is being made
  bool resuming = false;  ///< `messages` has proved itself, and not said what has arrived
  bool listens = false;   ///< since it went out of reach, a connection was made there
  bool ever_open = false;
  unsigned flaps = 0;            ///< connections in a row that have brought nothing
  std::uint64_t moved = 0;       ///< messages that have gone or come, when the last one broke
  bool left = false;             ///< it has said that it goes
  unsigned refusals = 0;         ///< in a row, but for places that are out of reach
  unsigned attempts = 0;         ///< since it was reached last
  std::size_t place = 0;         ///< in the order of its places: where it was reached last
  steady::time_point out_since;  ///< when it went out of reach
  steady::time_point dial_at = steady::time_point::max();
  steady::time_point close_at = steady::time_point::max();  ///< closing: no later than that
  std::string trouble;             ///< what broke the last connection, until there is another one
  std::uint64_t restorations = 0;  ///< connections that have replaced broken ones
};

using peer_table = rank_table<peer>;

}  // namespace troupe::transport::tcp
