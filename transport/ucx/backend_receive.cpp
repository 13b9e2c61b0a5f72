#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/ucx/backend.hpp"
#include "troupe/transport/ucx/thread_sanitizer.hpp"

namespace troupe::transport::ucx {

namespace {

// The most nodes that have said hello and are not added; only members of the job get that far.
constexpr std::size_t most_waiting = 65536;

void add(std::atomic<std::uint64_t>& counter, std::uint64_t n) {
  // One writer.
  counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

// The part of a header that identifies its sender.
template <class Header>
const Header& sender_of(const Header& h) {
  return h;
}
const payload_header& sender_of(const chunk_header& h) { return h.whole; }

}  // namespace

void backend::set_handlers(receive_worker& q) {
  q.handle(am_message, &backend::on_message, &q);
  q.handle(am_payload, &backend::on_payload, &q);
  q.handle(am_chunk, &backend::on_chunk, &q);
  q.handle(am_hello, &backend::on_hello, &q);
  q.handle(am_leave_notice, &backend::on_leave_notice, &q);
  q.handle(am_acknowledgement, &backend::on_acknowledgement, &q);
  q.handle(am_worker_address, &backend::on_worker_address, &q);
  q.handle(am_switched, &backend::on_switched, &q);
}

// The hot path: one comparison tells whether a header was written by the node it names.
const std::shared_ptr<connection>* backend::known(rank_t from, std::uint64_t token) {
  if (from < connections_.size() && connections_[from] && connections_[from]->token == token)
    return &connections_[from];
  return waiting(from, token);
}

const std::shared_ptr<connection>* backend::waiting(rank_t from, std::uint64_t token) {
  for (const auto& c : waiting_)
    if (c->rank == from && c->token == token) return &c;
  return nullptr;
}

ucs_status_t backend::stranger() {
  add(strangers_, 1);
  return UCS_OK;
}

// Common to messages and payloads: checks that the header is complete and that an open connection
// has its token, then calls `take`. An exception of `take` ends that connection.
template <class Header, class Take>
ucs_status_t backend::from_known(void* on, const void* header, std::size_t header_size,
                                 Take&& take) {
  auto& b = *static_cast<receive_worker*>(on)->owner;
  if (b.ending_) return UCS_OK;
  Header h;
  if (header_size != sizeof h) return b.stranger();
  std::memcpy(&h, header, sizeof h);
  const auto* c = b.known(sender_of(h).from, sender_of(h).token);
  if (!c) return b.stranger();
  if ((*c)->over) return UCS_OK;
  after_receipt((*c)->rank, b.options_.rank);
  ++b.events_;
  try {
    return take(b, *c, h);
  } catch (const std::exception& e) {
    b.trouble_with(*c, {loss_kind::broken, e.what()});
  }
  return UCS_OK;
}

ucs_status_t backend::on_message(void* on, const void* header, std::size_t header_size, void* data,
                                 std::size_t size, const ucp_am_recv_param_t* param) {
  const auto take = [&](backend& b, const auto& c, const message_header& h) {
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
      throw decode_error("an envelope came as a rendezvous");
    c->parts.envelope(h.sequence, h.order, h.payloads,
                      frame(std::span(static_cast<const std::byte*>(data), size)), b.out(*c));
    add(b.bytes_received_, size);
    if (c->network) {
      if (h.expected > c->acknowledged) {
        c->acknowledged = h.expected;
        b.mark_updated(c);
      }
      b.arrived(c, size);
    }
    return UCS_OK;
  };
  return from_known<message_header>(on, header, header_size, take);
}

ucs_status_t backend::on_payload(void* on, const void* header, std::size_t header_size, void* data,
                                 std::size_t size, const ucp_am_recv_param_t* param) {
  const auto take = [&](backend& b, const auto& c, const payload_header& h) {
    if (h.size != size)
      throw decode_error("a payload of " + std::to_string(size) + " bytes says it has " +
                         std::to_string(h.size));
    return b.take_payload(*static_cast<receive_worker*>(on), c, h, data,
                          (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
  };
  return from_known<payload_header>(on, header, header_size, take);
}

incoming_payload backend::make_payload(const payload_header& h) {
  if (h.place > static_cast<std::uint8_t>(memory_place::kind::cuda))
    throw decode_error("a payload lies in memory of an unknown kind");
  incoming_payload payload;
  payload.size = h.size;
  payload.place = {static_cast<memory_place::kind>(h.place), h.device};
  if (h.size > 0) payload.data = pool_.allocate(h.size, payload.place);
  return payload;
}

ucs_status_t backend::take_payload(receive_worker& on, const std::shared_ptr<connection>& c,
                                   const payload_header& h, void* data, bool rendezvous) {
  incoming_payload payload = make_payload(h);
  if (!rendezvous) {
    if (payload.place.where != memory_place::kind::host)
      throw decode_error("a payload in device memory came without a rendezvous");
    if (h.size > 0) std::memcpy(payload.data.get(), data, h.size);
    add(bytes_received_, h.size);
    c->parts.payload(h.sequence, h.index, std::move(payload), out(*c));
    if (c->network) arrived(c, h.size);
    return UCS_OK;
  }
  const auto number = c->back && c->back->net ? c->back->net->number.load() : 0;
  receives_.push_back({&on, c, h.sequence, h.index, std::move(payload), number, {}});
  receive& r = receives_.back();
  r.place = std::prev(receives_.end());
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.recv_am = &backend::on_received;
  param.user_data = &r;
  param.memory_type = r.payload.place.where == memory_place::kind::cuda ? UCS_MEMORY_TYPE_CUDA
                                                                        : UCS_MEMORY_TYPE_HOST;
  const auto request =
      ucp_am_recv_data_nbx(on.get(), data, r.payload.data.get(), r.payload.size, &param);
  if (request == nullptr)
    received(r, UCS_OK);
  else if (UCS_PTR_IS_ERR(request))
    received(r, UCS_PTR_STATUS(request));
  return UCS_INPROGRESS;
}

ucs_status_t backend::on_chunk(void* on, const void* header, std::size_t header_size, void* data,
                               std::size_t size, const ucp_am_recv_param_t* param) {
  const auto take = [&](backend& b, const auto& c, const chunk_header& h) {
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
      throw decode_error("a piece of a payload came as a rendezvous");
    b.take_chunk(*c, h, data, size);
    return UCS_OK;
  };
  return from_known<chunk_header>(on, header, header_size, take);
}

void backend::take_chunk(connection& c, const chunk_header& h, const void* data, std::size_t size) {
  const payload_header& whole = h.whole;
  if (whole.size > longest_chunked || h.offset >= whole.size || h.offset % chunk_size != 0 ||
      size != std::min<std::size_t>(chunk_size, whole.size - h.offset))
    throw decode_error("a piece of a payload does not fit into it");
  const auto mine = [&](const chunked_payload& p) {
    return p.sequence == whole.sequence && p.index == whole.index;
  };
  auto at = std::find_if(c.chunked.rbegin(), c.chunked.rend(), mine);
  if (at == c.chunked.rend()) {
    incoming_payload payload = make_payload(whole);
    if (payload.place.where != memory_place::kind::host)
      throw decode_error("a payload in device memory came in pieces");
    c.chunked.push_back({whole.sequence, whole.index, 0, std::move(payload),
                         std::vector<bool>((whole.size + chunk_size - 1) / chunk_size)});
    at = c.chunked.rbegin();
  }
  if (at->payload.size != whole.size)
    throw decode_error("the pieces of a payload disagree about its size");
  auto here = at->here[h.offset / chunk_size];
  if (here) throw decode_error("a piece of a payload came twice");
  here = true;
  std::memcpy(at->payload.data.get() + h.offset, data, size);
  at->arrived += size;
  add(bytes_received_, size);
  if (at->arrived < at->payload.size) return;
  incoming_payload payload = std::move(at->payload);
  c.chunked.erase(std::next(at).base());
  c.parts.payload(whole.sequence, whole.index, std::move(payload), out(c));
}

void backend::on_received(void* request, ucs_status_t status, std::size_t, void* user_data) {
  auto& r = *static_cast<receive*>(user_data);
  ucp_request_free(request);
  r.on->owner->received(r, status);
}

void backend::received(receive& r, ucs_status_t status) {
  ++events_;
  const auto c = r.from;
  constexpr const char* failed = "a payload could not be received";
  if (status != UCS_OK && c->wants_acknowledgements) {
    // It will be sent again over a new connection, which may exist already.
    if (c->back && !ending_) broke(*c->back, r.number, failed, status);
  } else if (!c->over && !ending_) {
    if (status != UCS_OK && c->back) {
      trouble_with(*c->back, broken(failed, status), true);
    } else if (status != UCS_OK) {
      trouble_with(c, broken(failed, status));
    } else {
      try {
        add(bytes_received_, r.payload.size);
        c->parts.payload(r.sequence, r.index, std::move(r.payload), out(*c));
        if (c->network) arrived(c, r.payload.size);
      } catch (const std::exception& e) {
        trouble_with(c, {loss_kind::broken, e.what()});
      }
    }
  }
  receives_.erase(r.place);
}

ucs_status_t backend::on_hello(void* on, const void* header, std::size_t header_size, void*,
                               std::size_t, const ucp_am_recv_param_t*) {
  auto& b = *static_cast<receive_worker*>(on)->owner;
  hello_header h;
  if (b.ending_) return UCS_OK;
  if (header_size != sizeof h) return b.stranger();
  std::memcpy(&h, header, sizeof h);
  if (h.to != b.options_.rank || h.to_nonce != b.id_ || !genuine(b.options_.key, h) ||
      b.waiting_.size() >= most_waiting)
    return b.stranger();
  const auto token = ucx::token(b.options_.key, h.from_nonce, b.id_);
  try {
    const auto* c = b.known(h.from, token);
    if (!c) {
      const peer* p = b.peers_.find(h.from);
      if (p && p->id == h.from_nonce && p->status.load() == peer::state::gone) return UCS_OK;
      b.waiting_.push_back(std::make_shared<connection>(h.from, h.from_nonce, token));
      c = &b.waiting_.back();
    }
    ++b.events_;
    b.greeted(*c, h);
  } catch (const std::exception&) {
    return b.stranger();
  }
  return UCS_OK;
}

ucs_status_t backend::on_worker_address(void* on, const void* header, std::size_t header_size,
                                        void*, std::size_t, const ucp_am_recv_param_t*) {
  const auto take = [&](backend& b, const auto& c, const worker_address_header& h) {
    if (c->worker_address_complete || h.offset != c->worker_address.size() || h.size <= h.offset)
      throw decode_error("the parts of the address of its queue do not fit together");
    const auto size = std::min<std::size_t>(h.bytes.size(), h.size - h.offset);
    c->worker_address.insert(c->worker_address.end(), h.bytes.begin(), h.bytes.begin() + size);
    if (c->worker_address.size() == h.size) {
      c->worker_address_complete = true;
      b.mark_updated(c);
    }
    return UCS_OK;
  };
  return from_known<worker_address_header>(on, header, header_size, take);
}

ucs_status_t backend::on_switched(void* on, const void* header, std::size_t header_size, void*,
                                  std::size_t, const ucp_am_recv_param_t*) {
  const auto take = [](backend& b, const auto& c, const switched_header&) {
    c->switched = true;
    b.mark_updated(c);
    return UCS_OK;
  };
  return from_known<switched_header>(on, header, header_size, take);
}

ucs_status_t backend::on_leave_notice(void* on, const void* header, std::size_t header_size, void*,
                                      std::size_t, const ucp_am_recv_param_t*) {
  auto& b = *static_cast<receive_worker*>(on)->owner;
  leave_notice_header h;
  if (b.ending_) return UCS_OK;
  if (header_size != sizeof h) return b.stranger();
  std::memcpy(&h, header, sizeof h);
  // Both sides may close at once, so a notice that comes too late is not from a stranger.
  if (const auto* c = b.known(h.from, h.token); c && !(*c)->over) {
    after_receipt(h.from, b.options_.rank);
    ++b.events_;
    b.leave_notices_.push_back(*c);
  }
  return UCS_OK;
}

}  // namespace troupe::transport::ucx
