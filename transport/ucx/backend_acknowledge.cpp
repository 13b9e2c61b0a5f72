// What a node on the network has sent is acknowledged: with each message that goes back anyway, and
// by a message of its own when much is unacknowledged or nothing more happens here.

#include <algorithm>
#include <cstring>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/ucx/backend.hpp"
#include "troupe/transport/ucx/send_header.hpp"

namespace troupe::transport::ucx {

namespace {

// The most that the other side must keep before it gets an acknowledgement.
constexpr std::uint64_t most_messages = 64;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 20;

}  // namespace

// In UCX's callbacks: `bytes` of a message or payload of `c` are here.
void backend::arrived(const std::shared_ptr<connection>& c, std::size_t bytes) {
  if (!c->wants_acknowledgements) return;
  if (c->back) {
    c->back->expected.store(c->parts.expected(), std::memory_order_relaxed);
    if (c->back->net) c->back->net->last_activity = link::clock::now();
  }
  ++c->owed_messages;
  c->owed_bytes += bytes;
  if (!std::exchange(c->owing, true)) owing_.push_back(c);
  if (c->owed_messages >= most_messages || c->owed_bytes >= most_bytes) owing_much_ = true;
}

void backend::greeted(const std::shared_ptr<connection>& c, const hello_header& h) {
  c->wants_acknowledgements = h.wants_acknowledgements != 0;
  c->network = c->wants_acknowledgements || (c->back && c->back->net);
}

ucs_status_t backend::on_acknowledgement(void* on, const void* header, std::size_t header_size,
                                         void*, std::size_t, const ucp_am_recv_param_t*) {
  auto& b = *static_cast<receive_worker*>(on)->owner;
  acknowledgement_header h;
  if (b.ending_) return UCS_OK;
  if (header_size != sizeof h) return b.stranger();
  std::memcpy(&h, header, sizeof h);
  const auto* c = b.known(h.from, h.token);
  if (!c) return b.stranger();
  ++b.events_;
  (*c)->acknowledged = std::max((*c)->acknowledged, h.expected);
  auto& newest = h.asks ? (*c)->asked : (*c)->answered;
  newest = std::max(newest, h.connection);
  if (h.asks) (*c)->asks = true;
  b.mark_updated(*c);
  return UCS_OK;
}

// In UCX's callbacks, under its lock: dropping what is acknowledged may run user code, so that is
// left for later.
void backend::mark_updated(const std::shared_ptr<connection>& c) {
  if (!std::exchange(c->updated, true)) updated_.push_back(c);
}

unsigned backend::process_updates() {
  std::vector<std::shared_ptr<connection>> updated;
  updated.swap(updated_);
  for (const auto& c : updated) {
    c->updated = false;
    if (!c->back || c->back->status.load() == peer::state::gone) continue;
    try {
      process_update(*c);
    } catch (const error& e) {
      trouble_with(c, {loss_kind::broken, e.what()});
    }
  }
  return static_cast<unsigned>(updated.size());
}

// Applies what `c` has said about what it has received, and about connections.
void backend::process_update(connection& c) {
  peer& p = *c.back;
  if (c.worker_address_complete) open_way_to_peer_worker(c);
  if (std::exchange(c.switched, false)) follow_switch(p);
  const bool asks = std::exchange(c.asks, false);
  if (!p.net) {
    if (asks) send_acknowledgement(p, c.asked);
    return;
  }
  link& l = *p.net;
  l.last_activity = link::clock::now();
  l.refusals = 0;
  if (c.acknowledged > p.gate.load() / peer::one_message)
    throw decode_error("node " + std::to_string(p.rank) + " acknowledges what was never sent");
  const auto number = l.number.load();
  if (std::max(c.asked, c.answered) > number + most_connections)
    throw decode_error("node " + std::to_string(p.rank) + " counts connections that never were");
  l.unacknowledged.acknowledge(c.acknowledged);
  if (c.asked > number) reconnect(p, c.asked, "it made a new connection");
  if (asks && c.asked == l.number.load()) send_acknowledgement(p, c.asked);
  if (c.answered == l.number.load()) answered(p);
}

// Sends an acknowledgement to every peer that has not got one with a message.
unsigned backend::acknowledge() {
  owing_much_ = false;
  unsigned n = 0;
  std::vector<std::shared_ptr<connection>> owing;
  owing.swap(owing_);
  for (auto& c : owing) {
    c->owed_messages = 0;
    c->owed_bytes = 0;
    c->owing = false;
    if (!c->back) continue;  // `admit` sees to it
    peer& p = *c->back;
    if (c->over || !p.ep || p.expected.load() == p.acknowledgement_sent.load()) continue;
    n += send_acknowledgement(p, p.net ? p.net->number.load() : 0);
  }
  return n;
}

bool backend::send_acknowledgement(peer& p, std::uint64_t number, bool asks) {
  if (!p.ep) return false;
  const acknowledgement_header h{p.token, p.expected.load(std::memory_order_relaxed), number,
                                 options_.rank, asks};
  if (const auto status = send_header(p.ep, am_acknowledgement, h); status != UCS_OK) {
    broke(p, h.connection, "an acknowledgement failed", status);
    return false;
  }
  p.acknowledgement_sent.store(h.expected, std::memory_order_relaxed);
  return true;
}

}  // namespace troupe::transport::ucx
