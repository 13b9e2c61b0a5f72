#include <algorithm>
#include <string>
#include <utility>

#include "messages/error.hpp"
#include "transport/ucx/backend.hpp"

namespace troupe::transport::ucx {

namespace {

[[noreturn]] void throw_lost(const peer& p) {
  fault f;
  f.text = "rank " + std::to_string(p.rank) + " is lost: " + p.reason();
  throw troupe::peer_lost(std::move(f));
}

ucs_memory_type_t memory_type(const memory_place& place) {
  return place.where == memory_place::kind::cuda ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
}

// UCX tells `slot` when it is done, unless that is at once.
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

// The hot path for a small message without payloads: two additions to the peer's line, a slot from
// the thread's cache, and UCX.
bool backend::send(rank_t rank, std::uint64_t order, frame&& envelope,
                   std::vector<outgoing_payload>&& payloads) {
  peer* p = peers_.find(rank);
  if (!p) throw transport_error("rank " + std::to_string(rank) + " was never added");
  if (payloads.size() > max_payloads)
    throw invalid_argument("a message can have " + std::to_string(max_payloads) +
                           " payloads, not " + std::to_string(payloads.size()));
  const use_of use(*p, peer::one_message + peer::one_sender);
  if (p->status.load() != peer::state::live) throw_lost(*p);

  std::uint64_t bytes = envelope.size();
  const auto sequence = use.sequence();
  const message_header header{p->token, sequence, order, options_.rank,
                              static_cast<std::uint32_t>(payloads.size())};
  bool more = send_envelope(*p, header, std::move(envelope));
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    outgoing_payload& payload = payloads[i];
    bytes += payload.size;
    const payload_header h{p->token,
                           sequence,
                           payload.size,
                           options_.rank,
                           static_cast<std::uint16_t>(i),
                           static_cast<std::uint8_t>(payload.place.where),
                           payload.place.device};
    if (send_payload(*p, h, std::move(payload))) more = true;
  }
  p->bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  return more;
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
// which are put together elsewhere first, or need a rendezvous that costs two more turns of a
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
  const auto param =
      how_to_send(slot,
                  payload.size >= options_.rendezvous_threshold ? UCP_AM_SEND_FLAG_RNDV
                                                                : UCP_AM_SEND_FLAG_EAGER,
                  memory_type(payload.place));
  return finish(p, slot,
                ucp_am_send_nbx(p.ep, am_payload, &header, sizeof header, payload.data,
                                payload.size, &param));
}

// Returns whether UCX goes on with the send. Throws peer_lost.
bool backend::finish(peer& p, send_slot* slot, ucs_status_ptr_t result) {
  if (result == nullptr) {
    pending_sends::end(slot);
    return false;
  }
  if (UCS_PTR_IS_ERR(result)) {
    pending_sends::end(slot);
    // A message that is missing would hold up all that follow.
    trouble_with(p, broken("a send failed", UCS_PTR_STATUS(result)));
    wake();
    throw_lost(p);
  }
  sends_.wait(slot);
  return true;
}

void backend::say_goodbye(peer& p) {
  const goodbye_header h{p.token, p.owner->options_.rank, 0};
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_COPY_HEADER | UCP_AM_SEND_FLAG_EAGER;
  const auto r = ucp_am_send_nbx(p.ep, am_goodbye, &h, sizeof h, nullptr, 0, &param);
  if (r && !UCS_PTR_IS_ERR(r)) ucp_request_free(r);
}

void backend::wake() { ucp_worker_signal(worker_->get()); }

void backend::on_endpoint_error(void* p, ucp_ep_h, ucs_status_t status) {
  auto& about = *static_cast<peer*>(p);
  about.owner->trouble_with(about, broken("the connection broke", status));
}

void backend::trouble_with(peer& p, peer_loss why) {
  p.set_reason(why.text);
  const std::lock_guard lock(trouble_mutex_);
  troubles_.push_back({&p, nullptr, std::move(why)});
  any_troubles_.store(true, std::memory_order_release);
}

void backend::trouble_with(std::shared_ptr<connection> c, peer_loss why) {
  c->over = true;
  const std::lock_guard lock(trouble_mutex_);
  troubles_.push_back({nullptr, std::move(c), std::move(why)});
  any_troubles_.store(true, std::memory_order_release);
}

}  // namespace troupe::transport::ucx
