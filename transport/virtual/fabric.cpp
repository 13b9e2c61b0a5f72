#include "troupe/transport/virtual/fabric.hpp"

#include <algorithm>
#include <string>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport::virtual_net {

fabric::fabric(const virtual_network_options& options,
               const std::function<void(const trace_event&)>& on_event,
               const std::function<void(rank_t)>& on_ready)
    : options_(options),
      on_event_(on_event),
      on_ready_(on_ready),
      random_(options_.seed),
      links_(options_.links) {}

void fabric::advance(virtual_time to) {
  while (agenda_.next() <= to && agenda_.next() != never) {
    now_ = std::max(now_, agenda_.next());
    event what = agenda_.take();
    std::visit([this](auto& e) { happen(e); }, what);
  }
  if (to != never) now_ = std::max(now_, to);
}

const attached_node* fabric::find(rank_t rank) const {
  const auto at = ranks_.find(rank);
  return at == ranks_.end() ? nullptr : at->second;
}

node_key fabric::enter(attached_node& node, rank_t rank) {
  if (!ranks_.try_emplace(rank, &node).second)
    throw invalid_argument(rank_name(rank) + " is on this virtual network already");
  const node_key key{rank, next_id_++};
  live_.emplace(key.id, &node);
  down_.erase(rank);
  return key;
}

void fabric::leave(const node_key& who) {
  live_.erase(who.id);
  ranks_.erase(who.rank);
  for (const auto& [rank, other] : ranks_)
    if (other->knows(who)) begin_close_handshake(who, other->key());
}

bool fabric::crash(rank_t rank) {
  const auto at = ranks_.find(rank);
  if (at == ranks_.end()) return false;
  attached_node& node = *at->second;
  const node_key who = node.key();
  ranks_.erase(at);
  live_.erase(who.id);
  down_.insert(rank);
  close_handshakes_.erase(close_handshakes_.lower_bound({who.id, 0}),
                          close_handshakes_.lower_bound({who.id + 1, 0}));
  agenda_.drop_datagrams([&](const datagram& d) {
    if (d.from != who || !random_.chance(0.5)) return false;
    ++counters_.lost;
    trace(d, datagram_event::lost);
    return true;
  });
  for (const auto& [r, other] : ranks_) {
    if (!other->knows(who)) continue;
    const bool silent = !options_.death_notice;
    agenda_.put(now_ + (silent ? options_.limit : *options_.death_notice),
                notice{other->key().id, who, loss_kind::ended, silent});
    other->wake_network();
  }
  node.crash();
  return true;
}

void fabric::report_gone(const node_key& at, const node_key& who) {
  const bool crashed = down_.contains(who.rank);
  if (crashed && !options_.death_notice) return;
  agenda_.put(now_ + options_.death_notice.value_or(options_.links.latency),
              notice{at.id, who, crashed ? loss_kind::ended : loss_kind::left});
}

void fabric::transmit(datagram&& d, virtual_time departs, bool again) {
  d.sent = departs;
  if (options_.self_driven)  // even if it is lost: the sender may not be there to send it again
    if (const auto at = live_.find(d.to.id); at != live_.end()) at->second->wake_network();
  ++counters_.sent;
  counters_.resent += again;
  trace(d, again ? datagram_event::resent : datagram_event::sent);
  if (!links_.passes(d.from.rank, d.to.rank)) {
    ++counters_.cut;
    return trace(d, datagram_event::cut);
  }
  const link_conditions& link = links_.of(d.from.rank, d.to.rank);
  if (random_.chance(link.loss)) {
    ++counters_.lost;
    return trace(d, datagram_event::lost);
  }
  if (random_.chance(link.duplication)) {
    ++counters_.doubled;
    trace(d, datagram_event::doubled);
    arrive_later(d, departs, link);
  }
  arrive_later(std::move(d), departs, link);
}

void fabric::arrive_later(datagram d, virtual_time departs, const link_conditions& link) {
  virtual_time when = departs + link.latency + random_.up_to(link.jitter);
  if (random_.chance(link.reordering)) {
    ++counters_.reordered;
    trace(d, datagram_event::reordered);
    when += random_.up_to(link.reorder_delay);
  }
  agenda_.put(when, std::move(d));
}

void fabric::happen(datagram& d) {
  if (!links_.passes(d.from.rank, d.to.rank)) {
    ++counters_.cut;
    return trace(d, datagram_event::cut);
  }
  if (d.kind == datagram_kind::reset) close_handshakes_.erase({d.to.id, d.from.id});
  const auto at = live_.find(d.to.id);
  auto what = datagram_event::stale;
  if (at != live_.end() && (!d.body || !d.body->withdrawn))
    what = at->second->take(d);
  else if (at == live_.end() && d.kind != datagram_kind::reset && !down_.contains(d.to.rank))
    reset(d.to, d.from);  // the host answers for a process that has ended
  ++(what == datagram_event::stale      ? counters_.stale
     : what == datagram_event::repeated ? counters_.repeated
                                        : counters_.delivered);
  trace(d, what);
}

void fabric::happen(const alarm& a) {
  if (const auto at = live_.find(a.self); at != live_.end()) at->second->alarmed(a);
}

void fabric::begin_close_handshake(const node_key& from, const node_key& to) {
  if (!lives(to.id)) return;
  const auto [at, fresh] = close_handshakes_.try_emplace(
      {from.id, to.id}, pending_close{from.rank, to.rank, now_ + options_.limit});
  if (fresh) happen(close_alarm{from.id, to.id});
}

void fabric::happen(const close_alarm& f) {
  const auto at = close_handshakes_.find({f.from, f.to});
  if (at == close_handshakes_.end()) return;
  pending_close& g = at->second;
  if (now_ >= g.until || !lives(f.to)) {
    close_handshakes_.erase(at);
    return;
  }
  datagram d;
  d.from = {g.from, f.from};
  d.to = {g.to, f.to};
  d.kind = datagram_kind::leave_notice;
  transmit(std::move(d), now_);
  agenda_.put(now_ + g.pause, f);
  g.pause = std::min<std::chrono::nanoseconds>(2 * g.pause, options_.limit / 32);
}

void fabric::reset(const node_key& from, const node_key& to) {
  datagram d;
  d.from = from;
  d.to = to;
  d.kind = datagram_kind::reset;
  transmit(std::move(d), now_);
}

void fabric::happen(const notice& n) {
  const auto at = live_.find(n.at);
  if (at == live_.end()) return;
  if (n.only_forget)
    at->second->forget(n.who);
  else
    at->second->on_end(n.who, n.kind);
}

void fabric::became_ready(rank_t rank) const {
  if (on_ready_) on_ready_(rank);
}

void fabric::trace(const datagram& d, datagram_event what) const {
  if (!on_event_) return;
  on_event_({now_, what, d.from.rank, d.to.rank, d.kind, d.body ? d.body->sequence : 0, d.bytes()});
}

}  // namespace troupe::transport::virtual_net
