#pragma once

#include <ucp/api/ucp.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "troupe/transport/delivery/rank_table.hpp"
#include "troupe/transport/delivery/reassembly.hpp"
#include "troupe/transport/ucx/copy_speed.hpp"
#include "troupe/transport/ucx/link.hpp"
#include "troupe/transport/ucx/receive_worker.hpp"
#include "troupe/transport/ucx/wire.hpp"

namespace troupe::transport::ucx {

class backend;

/// The sending side of the connection to another node. Made by add_peer; lives as long as the
/// transport, so that senders need no lock to use it.
struct peer {
  enum class state : std::uint8_t { live, closing, gone };

  backend* owner = nullptr;
  rank_t rank = 0;
  nonce id{};
  std::atomic<ucp_ep_h> ep{};   ///< valid while senders may enter, see `gate`
  ucp_ep_h first_ep = nullptr;  ///< `ep` before the switch to the worker that the peer has for us
  ucp_ep_h next_ep = nullptr;   ///< `ep` after it, until the peer has switched
  std::unique_ptr<receive_worker> own_worker;  ///< for it alone; null: the common one serves it
  std::uint64_t token = 0;
  std::string place;  ///< why these lanes, for routes()
  std::string lanes;
  bool same_host = false;
  bool shared = false;                  ///< shared memory is expected
  std::size_t copy_limit = chunk_size;  ///< payloads up to this size go in pieces
  bool can_read = false;                ///< by CMA, where copies are slow
  copy_speed copies;
  queue_shape shape = common_shape;  ///< of the queues that the two have for each other
  bool admitted = false;             ///< its messages are delivered (progressing thread only)
  std::unique_ptr<link> net;         ///< null where an endpoint ends only with its process
  /// All its messages below `expected` have arrived, and it has been sent an acknowledgement of
  /// those below `acknowledgement_sent`. Both stay 0 for a peer that wants no acknowledgements.
  std::atomic<std::uint64_t> expected{0};
  std::atomic<std::uint64_t> acknowledgement_sent{0};

  std::atomic<state> status{state::closing};  ///< live once the hello has been sent
  /// Sends of this peer that UCX has not finished.
  std::atomic<std::int64_t> pending{0};

  /// The next sequence number, times `one_message`, plus the number of threads that are using `ep`:
  /// one addition both takes a number and enters. Sequentially consistent: a sender adds and then
  /// reads `status`, the closing thread writes `status` and then reads this, so that one of the two
  /// sees the other.
  alignas(64) std::atomic<std::uint64_t> gate{0};
  std::atomic<std::uint64_t> bytes_sent{0};

  static constexpr std::uint64_t one_sender = 1;
  static constexpr std::uint64_t one_message = 1u << 12;

  void set_reason(std::string reason) {
    const std::lock_guard lock(reason_mutex_);
    if (reason_.empty()) reason_ = std::move(reason);
  }
  std::string reason() const {
    const std::lock_guard lock(reason_mutex_);
    return reason_;
  }

private:
  mutable std::mutex reason_mutex_;
  std::string reason_;
};

/// Keeps `ep` of a peer from being closed while it exists. Check `status` after making one.
class use_of {
public:
  explicit use_of(peer& p, std::uint64_t step = peer::one_sender) noexcept
      : peer_(p), before_(p.gate.fetch_add(step)) {}
  ~use_of() { peer_.gate.fetch_sub(peer::one_sender); }
  use_of(const use_of&) = delete;
  use_of& operator=(const use_of&) = delete;

  /// The message's number when `step` was for a message.
  std::uint64_t sequence() const noexcept { return before_ / peer::one_message; }

private:
  peer& peer_;
  std::uint64_t before_;
};

/// A payload that arrives in pieces.
struct chunked_payload {
  std::uint64_t sequence;
  std::size_t index;
  std::size_t arrived;
  incoming_payload payload;
  std::vector<bool> here;  // by piece
};

/// The receiving side of the connection to another node; used by the progressing thread alone. Made
/// by a genuine hello or by add_peer, whichever is first; what arrives before add_peer is held
/// back.
struct connection {
  connection(rank_t from, const nonce& id_, std::uint64_t token_)
      : rank(from), id(id_), token(token_), parts(from) {}

  rank_t rank;
  nonce id;
  std::uint64_t token;
  reassembly parts;
  std::vector<chunked_payload> chunked;  // the latest last; few at a time
  std::vector<incoming_message> held;
  bool added = false;
  bool over = false;  ///< nothing more is delivered
  peer_loss why;      ///< it ended before it was added

  peer* back = nullptr;                   ///< its sending side, once added
  std::vector<std::byte> worker_address;  ///< of its worker for us, as far as it has arrived
  bool worker_address_complete = false;   ///< it has arrived completely
  bool switched = false;                  ///< it sends to our worker for it from now on
  /// One of the two nodes keeps what it sends until it is acknowledged; the following is for that.
  bool network = false;
  bool wants_acknowledgements = false;  ///< the other node does: it keeps what it sends
  std::uint64_t asked = 0;              ///< the newest connection that it has made
  std::uint64_t answered = 0;           ///< the newest of our connections that it has answered
  std::uint64_t acknowledged = 0;       ///< it has all of our messages below
  std::uint64_t owed_messages = 0;      ///< arrived since the last acknowledgement
  std::uint64_t owed_bytes = 0;
  bool owing = false;    ///< is in backend::owing_
  bool updated = false;  ///< is in backend::updated_
  bool asks = false;     ///< and expects an answer to that
};

using peer_table = rank_table<peer>;

}  // namespace troupe::transport::ucx
