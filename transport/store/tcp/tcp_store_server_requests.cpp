#include <cstring>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/store/tcp/tcp_store_server_internal.hpp"

namespace troupe::transport {

namespace {

constexpr int max_requests_at_once = 16;

}  // namespace

void tcp_store_server::impl::read_from(connection& c) {
  const auto id = c.id;
  for (int i = 0; i < max_requests_at_once; ++i) {
    const auto result = c.receive();
    if (result == progress::closed) {
      if (c.is_stranger()) return refuse(id, "ended without a proof", c.at == stage::proof);
      return drop(id);
    }
    if (result == progress::blocked) {
      if (c.at == stage::body) set_timer(c, deadline_after(limits_.stall_time));
      break;
    }
    if (!take_input(c)) return;
    if (c.at == stage::waiting || c.at == stage::replying) break;
  }
  update_events(c);
}

// Handles a part that is complete.
bool tcp_store_server::impl::take_input(connection& c) {
  switch (c.at) {
    case stage::greeting: return take_greeting(c);
    case stage::proof: return take_proof(c);
    case stage::length: return take_length(c);
    default: return take_request(c);
  }
}

bool tcp_store_server::impl::take_greeting(connection& c) {
  store_handshake::challenge challenge;
  const auto verdict =
      c.handshake.accept(c.input().first<sizeof(store_handshake::greeting)>(), challenge);
  const bool ours = verdict != store_handshake::verdict::not_troupe;
  // The socket's buffer is empty: these few bytes fit, or the peer is gone. A peer of another
  // version gets them too, so that it can say what is wrong.
  const auto sent = !ours ? -1 : send(c.fd.get(), challenge.data(), challenge.size(), MSG_NOSIGNAL);
  if (verdict != store_handshake::verdict::accepted)
    return refuse(c.id, ours ? "speaks another version" : "does not speak this protocol"), false;
  if (sent != static_cast<ssize_t>(challenge.size()))
    return refuse(c.id, "ended without a proof"), false;
  c.expect(stage::proof, sizeof(store_handshake::answer));
  return true;
}

bool tcp_store_server::impl::take_proof(connection& c) {
  if (!c.handshake.admit(c.input().first<sizeof(store_handshake::answer)>()))
    return refuse(c.id, "does not know the job's secret", true), false;
  if (clients_ >= limits_.clients) return refuse(c.id, "was one client too many"), false;
  c.channel.emplace(c.handshake.session(), store_channel::side::server);
  strangers_.erase(c.id);
  set_timer(c, std::nullopt);
  c.expect(stage::length, store_channel::length_size);
  client_count_.has_clients(++clients_);
  return true;
}

bool tcp_store_server::impl::take_length(connection& c) {
  std::uint32_t length = 0;
  std::memcpy(&length, c.input().data(), sizeof length);
  if (length == 0 || length > max_store_message) return garbled(c, "its length is wrong");
  c.expect(stage::body, length + store_channel::tag_size);
  return true;
}

bool tcp_store_server::impl::take_request(connection& c) {
  const auto request = c.channel->open(c.sealed_input());
  if (!request) return garbled(c, "it was altered on the way");
  try {
    c.request = decode_store_request(*request);
  } catch (const decode_error& e) {
    return garbled(c, e.what());
  }
  c.at = stage::waiting;
  set_timer(c, c.request.waits() ? std::optional(deadline_after(c.request.timeout)) : std::nullopt);
  return serve(c, false);
}

bool tcp_store_server::impl::garbled(connection& c, const std::string& why) {
  client_count_.garbled(c.peer, why);
  return drop(c.id), false;
}

// Answers the request of `c` if that can be done now.
bool tcp_store_server::impl::serve(connection& c, bool last_chance) {
  if (queued_ > limits_.reply_bytes) {
    due_.push_back(c.id);
    return true;
  }
  auto reply = c.request.what == store_request::op::status
                   ? status()
                   : waiters_.answer(c.id, c.request, last_chance || !c.timer);
  if (!reply) return true;
  set_timer(c, std::nullopt);
  auto out = c.channel->seal(encode(*reply));
  queued_ += out.size();
  c.request = {};
  c.reply(std::move(out));
  return send_reply(c);
}

// Memory may run out for one client; the others are not affected.
void tcp_store_server::impl::serve_or_drop(connection& c, bool last_chance) {
  const auto id = c.id;
  try {
    if (serve(c, last_chance)) update_events(c);
  } catch (const std::exception& e) {
    failed(id, e);
  }
}

// Queues the clients that have something now: a request has brought it, or a client that left has
// left it.
void tcp_store_server::impl::take_up_ready() {
  const auto ready = waiters_.take_ready();
  due_.insert(due_.end(), ready.begin(), ready.end());
}

void tcp_store_server::impl::serve_due() {
  for (take_up_ready(); !due_.empty() && queued_ <= limits_.reply_bytes; take_up_ready()) {
    const auto found = connections_.find(due_.front());
    due_.pop_front();
    if (found == connections_.end() || found->second->at != stage::waiting) continue;
    serve_or_drop(*found->second, false);
  }
}

bool tcp_store_server::impl::send_reply(connection& c) {
  const auto before = c.output_left();
  const auto result = c.flush();
  queued_ -= before - c.output_left();
  if (result == progress::closed) return drop(c.id), false;
  if (result == progress::complete) {
    set_timer(c, std::nullopt);
    c.expect(stage::length, store_channel::length_size);
  } else if (!c.timer || c.output_left() != before) {
    set_timer(c, deadline_after(limits_.stall_time));
  }
  update_events(c);
  return true;
}

store_reply tcp_store_server::impl::status() const {
  return {.what = store_reply::kind::value, .value = to_bytes(client_count_.refusals())};
}

}  // namespace troupe::transport
