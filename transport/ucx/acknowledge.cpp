// What a node on the network has received is acknowledged: with each message that goes back anyway,
// and by a message of its own when much is owed or nothing more happens here.

#include <algorithm>
#include <cstring>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/ucx/backend.hpp"
#include "troupe/transport/ucx/send_header.hpp"

namespace troupe::transport::ucx {

namespace {

// So much may be kept at the other side before it is told.
constexpr std::uint64_t most_messages = 64;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 20;

}  // namespace

// In UCX's callbacks: `bytes` of a message or payload of `c` are here.
void backend::arrived(const std::shared_ptr<connection>& c, std::size_t bytes) {
  if (!c->keeps) return;
  if (c->back) {
    c->back->expected.store(c->parts.expected(), std::memory_order_relaxed);
    if (c->back->net) c->back->net->heard = link::clock::now();
  }
  ++c->owed_messages;
  c->owed_bytes += bytes;
  if (!std::exchange(c->owing, true)) owing_.push_back(c);
  if (c->owed_messages >= most_messages || c->owed_bytes >= most_bytes) owing_much_ = true;
}

void backend::greeted(const std::shared_ptr<connection>& c, const hello_header& h) {
  c->keeps = h.keeps != 0;
  c->network = c->keeps || (c->back && c->back->net);
}

ucs_status_t backend::on_acknowledgement(void* on, const void* header, std::size_t header_size,
                                         void*, std::size_t, const ucp_am_recv_param_t*) {
  auto& b = *static_cast<queue*>(on)->owner;
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
  b.take_news(*c);
  return UCS_OK;
}

// In UCX's callbacks, under its lock: what is acknowledged may run strangers' code when it is let
// go, so that is left for later.
void backend::take_news(const std::shared_ptr<connection>& c) {
  if (!std::exchange(c->news, true)) news_.push_back(c);
}

unsigned backend::attend_to_news() {
  std::vector<std::shared_ptr<connection>> news;
  news.swap(news_);
  for (const auto& c : news) {
    c->news = false;
    if (!c->back || c->back->status.load() == peer::state::gone) continue;
    try {
      hear(*c);
    } catch (const error& e) {
      trouble_with(c, {loss_kind::broken, e.what()});
    }
  }
  return static_cast<unsigned>(news.size());
}

// What `c` has said about what it has, and about connections.
void backend::hear(connection& c) {
  peer& p = *c.back;
  if (c.way_known) go_over(c);
  const bool asks = std::exchange(c.asks, false);
  if (!p.net) {
    if (asks) say_acknowledgement(p, c.asked);
    return;
  }
  link& l = *p.net;
  l.heard = link::clock::now();
  l.refusals = 0;
  if (c.acknowledged > p.gate.load() / peer::one_message)
    throw decode_error("node " + std::to_string(p.rank) + " acknowledges what was never sent");
  const auto number = l.number.load();
  if (std::max(c.asked, c.answered) > number + most_connections)
    throw decode_error("node " + std::to_string(p.rank) + " counts connections that never were");
  l.kept.acknowledge(c.acknowledged);
  if (c.asked > number) reconnect(p, c.asked, "it made a new connection");
  if (asks && c.asked == l.number.load()) say_acknowledgement(p, c.asked);
  if (c.answered == l.number.load()) answered(p);
}

// Tells everybody what has arrived who has not heard of it with a message.
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
    if (c->over || !p.ep || p.expected.load() == p.told.load()) continue;
    n += say_acknowledgement(p, p.net ? p.net->number.load() : 0);
  }
  return n;
}

bool backend::say_acknowledgement(peer& p, std::uint64_t number, bool asks) {
  if (!p.ep) return false;
  const acknowledgement_header h{p.token, p.expected.load(std::memory_order_relaxed), number,
                                 options_.rank, asks};
  if (const auto status = say(p.ep, am_acknowledgement, h); status != UCS_OK) {
    broke(p, h.connection, "an acknowledgement failed", status);
    return false;
  }
  p.told.store(h.expected, std::memory_order_relaxed);
  return true;
}

}  // namespace troupe::transport::ucx
