// What comes to a node from the network; endpoint.cpp has the calls of the node that owns it.

#include <exception>
#include <string>

#include "troupe/transport/virtual/endpoint.hpp"

namespace troupe::transport::virtual_net {

bool endpoint::knows(const node_key& who) const {
  if (connections_.contains(who.id)) return true;
  const auto at = peers_.find(who.rank);
  return at != peers_.end() && at->second.id == who.id && !at->second.lost;
}

// Starts delivery from a peer that was added.
void endpoint::admit(const node_key& who, peer& p) {
  if (early_ > 0)
    std::erase_if(connections_, [&](const auto& entry) {
      const connection& c = *entry.second;
      const bool older = !c.added && c.peer().rank == who.rank && c.peer().id < who.id;
      early_ -= older;
      return older;
    });
  const auto at = connections_.find(who.id);
  if (at == connections_.end()) return;
  connection& c = *at->second;
  p.way = &c;
  c.added = true;
  --early_;
  deliver(who, c.early);
  if (c.over) end(who, *c.over);
}

// The connection to the sender of a datagram; null when there is none any more.
connection* endpoint::reach(const node_key& from) {
  const auto at = connections_.find(from.id);
  if (at != connections_.end()) return at->second->over ? nullptr : at->second.get();
  const auto known = peers_.find(from.rank);
  if (known != peers_.end()) {
    peer& p = known->second;
    if (p.id == from.id) return p.lost ? nullptr : &open(from, &p);
    if (p.id > from.id) return nullptr;  // it has been replaced
  }
  return net_.lives(from.id) ? &open(from, nullptr) : nullptr;
}

connection& endpoint::open(const node_key& to, peer* added) {
  auto& c = connections_[to.id];
  c = std::make_unique<connection>(net_, key_, to, unacknowledged_);
  if (added) {
    c->added = true;
    added->way = c.get();
  } else {
    ++early_;
  }
  return *c;
}

void endpoint::erase(connection& c) {
  const node_key who = c.peer();
  const auto at = peers_.find(who.rank);
  if (at != peers_.end() && at->second.way == &c) at->second.way = nullptr;
  early_ -= !c.added;
  connections_.erase(who.id);
}

datagram_event endpoint::take(const datagram& d) {
  if (d.kind == datagram_kind::leave_notice || d.kind == datagram_kind::reset) {
    end(d.from, peer_left());
    if (d.kind == datagram_kind::leave_notice) net_.reset(key_, d.from);
    return datagram_event::delivered;
  }
  connection* c = reach(d.from);
  if (!c) {
    net_.reset(key_, d.from);
    return datagram_event::stale;
  }
  c->acknowledged(d.ack);
  if (c->closing && c->idle()) {
    erase(*c);
    net_.begin_close_handshake(key_, d.from);
    return datagram_event::delivered;
  }
  if (!d.body) return datagram_event::delivered;
  bool fresh = true;
  try {
    fresh = c->take(d, pool_, complete_);
  } catch (const std::exception& failure) {
    complete_.clear();
    net_.reset(key_, d.from);
    end(d.from, {loss_kind::broken, failure.what()});
    return datagram_event::delivered;
  }
  if (!complete_.empty()) {
    if (c->added)
      changing([&] { deliver(d.from, complete_); });
    else
      for (auto& message : complete_) c->early.push_back(std::move(message));
    complete_.clear();
  }
  return fresh ? datagram_event::delivered : datagram_event::repeated;
}

void endpoint::deliver(const node_key& from, std::vector<incoming_message>& messages) {
  for (auto& message : messages) messages_.push_back({from, std::move(message)});
  messages.clear();
}

void endpoint::alarmed(const alarm& a) {
  const auto at = connections_.find(a.peer);
  if (at == connections_.end() || at->second->alarmed(a.what)) return;
  const node_key who = at->second->peer();
  net_.reset(key_, who);  // in case it is still there
  end(who, {loss_kind::broken,
            "it acknowledged nothing for " + std::to_string(net_.options().limit.count()) + " ms"});
}

void endpoint::on_end(const node_key& who, loss_kind kind) {
  const bool ended = kind == loss_kind::ended;
  forget(who);
  end(who, {kind, ended ? "its process has ended" : "it left the network"});
}

void endpoint::forget(const node_key& who) {
  const auto at = connections_.find(who.id);
  if (at != connections_.end() && !at->second->added) erase(*at->second);
}

// Ends the connection to `who`: nothing more of it is delivered, and if it is a peer the sink is
// notified.
void endpoint::end(const node_key& who, peer_loss why) {
  const auto known = peers_.find(who.rank);
  const bool is_peer = known != peers_.end() && known->second.id == who.id;
  const auto at = connections_.find(who.id);
  if (!is_peer) {
    const bool replaced = known != peers_.end() && known->second.id > who.id;
    if (at != connections_.end() && (replaced || at->second->added))
      erase(*at->second);
    else if (at != connections_.end() && !at->second->over)
      at->second->over = std::move(why);
    else if (at == connections_.end() && !replaced && net_.lives(who.id))
      open(who, nullptr).over = std::move(why);  // reported once it is added
    return;
  }
  if (at != connections_.end()) erase(*at->second);
  if (known->second.lost) return;
  known->second.lost = std::make_unique<peer_loss>(why);
  changing([&] { losses_.push_back({who, std::move(why)}); });
}

void endpoint::crash() {
  crashed_ = true;
  woken_ = false;
  for (const auto& [id, c] : connections_) c->forget();
  connections_.clear();
  peers_.clear();
  messages_.clear();
  losses_.clear();
  early_ = 0;
}

}  // namespace troupe::transport::virtual_net
