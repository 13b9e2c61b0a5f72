#include <algorithm>
#include <string>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/ucx/backend.hpp"
#include "troupe/transport/ucx/send_header.hpp"
#include "troupe/transport/ucx/thread_sanitizer.hpp"

namespace troupe::transport::ucx {

namespace {

[[noreturn]] void throw_lost(const peer& p) {
  fault f;
  const auto reason = p.reason();
  f.text = rank_name(p.rank) + " is lost: " +
           (reason.empty() ? "it has left or ended, or cannot be reached any more" : reason);
  throw troupe::peer_lost(std::move(f));
}

ucs_memory_type_t memory_type(const memory_place& place) {
  return place.where == memory_place::kind::cuda ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
}

// UCX completes `slot` by its callback, unless the send ends at once.
ucp_request_param_t how_to_send(send_slot* slot, unsigned protocol,
                                ucs_memory_type_t memory = UCS_MEMORY_TYPE_HOST) {
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.flags = UCP_AM_SEND_FLAG_COPY_HEADER | protocol;
  param.cb.send = &pending_sends::callback;
  param.user_data = slot;
  param.memory_type = memory;
  return param;
}

}  // namespace

// The hot path for a small message without payloads: two additions to a cache line of the peer, a
// slot from the thread's cache, and UCX.
bool backend::send(rank_t rank, std::uint64_t order, frame&& envelope,
                   std::vector<outgoing_payload>&& payloads) {
  peer* p = peers_.find(rank);
  if (!p) throw transport_error(rank_name(rank) + " was never added");
  if (payloads.size() > max_payloads)
    throw invalid_argument("a message can have " + std::to_string(max_payloads) +
                           " payloads, not " + std::to_string(payloads.size()));
  const use_of use(*p, peer::one_message + peer::one_sender);
  if (p->status.load() != peer::state::live) throw_lost(*p);
  before_send(options_.rank, rank);
  if (p->net)
    return send_over_network(*p, {use.sequence(), order, std::move(envelope), std::move(payloads)});

  std::uint64_t bytes = envelope.size();
  const auto sequence = use.sequence();
  const auto header = header_of(*p, sequence, order, payloads.size());
  bool more = send_envelope(*p, header, std::move(envelope));
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    outgoing_payload& payload = payloads[i];
    bytes += payload.size;
    const auto h = header_of(*p, sequence, i, payload);
    if (send_payload(*p, h, std::move(payload))) more = true;
  }
  p->bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  return more;
}

message_header backend::header_of(const peer& p, std::uint64_t sequence, std::uint64_t order,
                                  std::size_t payloads) const {
  return {p.token,       sequence,
          order,         p.expected.load(std::memory_order_relaxed),
          options_.rank, static_cast<std::uint32_t>(payloads)};
}

payload_header backend::header_of(const peer& p, std::uint64_t sequence, std::size_t index,
                                  const outgoing_payload& payload) const {
  return {p.token,
          sequence,
          payload.size,
          options_.rank,
          static_cast<std::uint16_t>(index),
          static_cast<std::uint8_t>(payload.place.where),
          payload.place.device};
}

bool backend::send_envelope(peer& p, const message_header& header, frame&& envelope) {
  send_slot* slot = sends_.begin(p);
  slot->envelope = std::move(envelope);
  const auto param = how_to_send(slot, UCP_AM_SEND_FLAG_EAGER);
  return finish(p, slot,
                ucp_am_send_nbx(p.ep, am_message, &header, sizeof header, slot->envelope.data(),
                                slot->envelope.size(), &param));
}

// Through shared memory: the receiver copies each piece to its place. Faster than UCX's fragments,
// which are reassembled in a buffer first, or need a rendezvous that takes two more steps of a
// process that may not be running.
bool backend::send_chunks(peer& p, const payload_header& header, outgoing_payload&& payload) {
  auto param = how_to_send(nullptr, UCP_AM_SEND_FLAG_EAGER);
  const auto start = std::chrono::steady_clock::now();
  chunk_header chunk{header, 0};
  bool more = false;
  while (chunk.offset < payload.size) {
    send_slot* slot = sends_.begin(p);
    param.user_data = slot;
    const auto size = std::min<std::size_t>(chunk_size, payload.size - chunk.offset);
    const auto result = ucp_am_send_nbx(p.ep, am_chunk, &chunk, sizeof chunk,
                                        payload.data + chunk.offset, size, &param);
    // Until `finish`, `payload` itself keeps the bytes.
    if (UCS_PTR_IS_PTR(result)) slot->keep = payload.keep;
    if (finish(p, slot, result) && !more) {
      more = true;
      measure_copies(p, chunk.offset, start);  // the queue is full: the rest waits
    }
    chunk.offset += size;
  }
  if (!more) measure_copies(p, payload.size, start);
  return more;
}

void backend::measure_copies(peer& p, std::size_t bytes,
                             std::chrono::steady_clock::time_point start) {
  if (bytes >= copy_speed::smallest) p.copies.took(bytes, std::chrono::steady_clock::now() - start);
}

bool backend::in_pieces(peer& p, const outgoing_payload& payload) {
  if (payload.size <= chunk_size || payload.size > p.copy_limit ||
      payload.place.where != memory_place::kind::host)
    return false;
  return !p.can_read || payload.size < copy_speed::smallest || p.copies.worthwhile();
}

bool backend::send_payload(peer& p, const payload_header& header, outgoing_payload&& payload) {
  if (in_pieces(p, payload)) return send_chunks(p, header, std::move(payload));
  send_slot* slot = sends_.begin(p);
  slot->keep = std::move(payload.keep);
  return finish(p, slot, start_payload(p, header, payload, slot));
}

ucs_status_ptr_t backend::start_payload(peer& p, const payload_header& header,
                                        const outgoing_payload& payload, send_slot* slot) const {
  const auto param =
      how_to_send(slot,
                  payload.size >= options_.rendezvous_threshold ? UCP_AM_SEND_FLAG_RNDV
                                                                : UCP_AM_SEND_FLAG_EAGER,
                  memory_type(payload.place));
  return ucp_am_send_nbx(p.ep, am_payload, &header, sizeof header, payload.data, payload.size,
                         &param);
}

// Over a network: `m` is kept until it is acknowledged, in case it must be sent again.
bool backend::send_over_network(peer& p, sent_message&& m) {
  std::uint64_t bytes = m.envelope.size();
  for (const auto& payload : m.payloads) bytes += payload.size;
  p.bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  link& l = *p.net;
  const auto kept = std::make_shared<const sent_message>(std::move(m));
  {
    const std::lock_guard lock(l.mutex);
    l.unacknowledged.keep(kept);
    if (!l.open) return true;  // goes out with the next connection
    // Relaxed: `reconnect` shuts the link under this lock before it looks at the users.
    l.users.fetch_add(1, std::memory_order_relaxed);
  }
  const bool more = transmit(p, kept);
  l.users.fetch_sub(1, std::memory_order_release);
  return more;
}

// Returns whether UCX continues with it. A failure ends this connection only, not the peer.
bool backend::transmit(peer& p, const retransmit_queue::message& m) {
  const auto begin = [&] {
    send_slot* slot = sends_.begin(p);
    slot->keep = m;
    return slot;
  };
  bool more = false;
  // Returns whether the connection still works.
  const auto started = [&](send_slot* slot, ucs_status_ptr_t result) {
    if (UCS_PTR_IS_ERR(result)) {
      broke(p, slot->connection, "a send failed", UCS_PTR_STATUS(result));
      wake();
    }
    if (UCS_PTR_IS_PTR(result)) {
      sends_.wait(slot);
      more = true;
    } else {
      pending_sends::end(slot);
    }
    return !UCS_PTR_IS_ERR(result);
  };
  const auto header = header_of(p, m->sequence, m->order, m->payloads.size());
  send_slot* slot = begin();
  const auto param = how_to_send(slot, UCP_AM_SEND_FLAG_EAGER);
  if (!started(slot, ucp_am_send_nbx(p.ep, am_message, &header, sizeof header, m->envelope.data(),
                                     m->envelope.size(), &param)))
    return true;
  p.acknowledgement_sent.store(header.expected, std::memory_order_relaxed);
  for (std::size_t i = 0; i < m->payloads.size(); ++i) {
    slot = begin();
    const auto h = header_of(p, m->sequence, i, m->payloads[i]);
    if (!started(slot, start_payload(p, h, m->payloads[i], slot))) return true;
  }
  return more;
}

// Returns whether UCX continues with the send. Throws peer_lost.
bool backend::finish(peer& p, send_slot* slot, ucs_status_ptr_t result) {
  if (result == nullptr) {
    pending_sends::end(slot);
    return false;
  }
  if (UCS_PTR_IS_ERR(result)) {
    pending_sends::end(slot);
    // A missing message would hold up all that follow.
    trouble_with(p, broken("a send failed", UCS_PTR_STATUS(result)), true);
    wake();
    throw_lost(p);
  }
  sends_.wait(slot);
  return true;
}

// Returns whether UCX still has to send it.
bool backend::send_leave_notice(peer& p) {
  if (!p.ep) return false;
  bool later = false;
  before_send(p.owner->options_.rank, p.rank);
  send_header(p.ep, am_leave_notice, leave_notice_header{p.token, p.owner->options_.rank, 0},
              &later);
  p.owner->arm_all_ = true;
  return later;
}

void backend::wake() {
  ucp_worker_signal(common_->get());
  common_->touch();  // the signal stays until it is armed
}

void backend::on_endpoint_error(void* p, ucp_ep_h ep, ucs_status_t status) {
  auto& about = *static_cast<peer*>(p);
  if (!about.net)
    about.owner->trouble_with(about, broken("the connection broke", status), true);
  else if (ep == about.ep)
    about.owner->broke(about, about.net->number.load(), "the connection broke", status);
}

// Connection `number` to `p` is broken. On any thread that calls UCX.
void backend::broke(peer& p, std::uint64_t number, const char* what, ucs_status_t status) {
  if (!p.net) {
    trouble_with(p, broken(what, status), true);
    return;
  }
  if (number != p.net->number.load()) return;  // it was closed for a new one
  const std::lock_guard lock(trouble_mutex_);
  troubles_.push_back({&p, nullptr, broken(what, status), number, true});
  // The trouble is put down before its flag, which is a hint to poll without the lock: `progress`
  // takes the lock, which publishes the trouble.
  any_troubles_.store(true, std::memory_order_release);
}

// The transport at the other end of `p`, in this process, has ended. Any thread.
void backend::has_left(peer& p) {
  trouble_with(p, peer_left());
  wake();
}

void backend::trouble_with(peer& p, peer_loss why, bool ucx) {
  if (!ucx) p.set_reason(why.text);
  const std::lock_guard lock(trouble_mutex_);
  troubles_.push_back({&p, nullptr, std::move(why), {}, ucx});
  // As in `broke`.
  any_troubles_.store(true, std::memory_order_release);
}

void backend::trouble_with(std::shared_ptr<connection> c, peer_loss why) {
  c->over = true;
  const std::lock_guard lock(trouble_mutex_);
  troubles_.push_back({nullptr, std::move(c), std::move(why), {}, false});
  // As in `broke`.
  any_troubles_.store(true, std::memory_order_release);
}

}  // namespace troupe::transport::ucx
