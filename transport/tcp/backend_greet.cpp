// Handshakes: connections of others are accepted, and both ends prove themselves.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/tcp/backend.hpp"

namespace troupe::transport::tcp {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t most_strangers = 256;  // the oldest goes for a new one
constexpr std::size_t most_parked = 1024;
constexpr auto time_to_prove = 3s;
constexpr auto time_parked = 60s;  // a member calls again
constexpr auto time_without_listening = 100ms;
constexpr unsigned most_refusals = 5;
constexpr auto time_for_a_call = 500ms;  // ours, before the other side's own counts as well
constexpr unsigned accepts_at_once = 16;
constexpr auto time_between_calls = 50ms;
constexpr auto time_between_late_calls = 1000ms;
constexpr std::size_t most_bulk_streams = address::most_places;  // of a peer

bool refused(int error) { return error == ECONNREFUSED; }

// The kernel has nothing for another connection at present.
bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

unsigned backend::accept_all(int listener) {
  unsigned n = 0;
  while (n < accepts_at_once) {
    socket_address from;
    from.length = sizeof from.storage;
    const int fd = ::accept4(listener, reinterpret_cast<sockaddr*>(&from.storage), &from.length,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (!is_shortage(errno)) return n;
      if ((errno == EMFILE || errno == ENFILE) && drop_oldest_stranger()) continue;
      // No connection is accepted until there may be descriptors again, and nothing spins.
      for (auto& [id, one] : targets_)
        if (one.what == target::kind::listener) rewatch(id, one.fd, 0);
      listen_again_at_ = steady::now() + time_without_listening;
      attend_by(listen_again_at_);
      return n;
    }
    ++n;
    unique_fd owned(fd);
    set_tcp_options(fd, probes(options_));
    if (strangers_now_ >= most_strangers) drop_oldest_stranger();
    auto made = std::make_unique<greeting>(options_.secret, std::move(owned), from);
    made->due = steady::now() + time_to_prove;
    attend_by(made->due);
    auto& one = *made;
    one.place = greetings_.insert(greetings_.end(), std::move(made));
    count_stranger(one, true);
    try {
      one.id = watch({.what = target::kind::greeting, .fd = fd, .greets = &one}, EPOLLIN);
    } catch (const transport_error&) {
      end(0, one);
      continue;
    }
    act_on(one.id, one, one.advance());  // a member's hello is here most likely
  }
  return n;
}

// The oldest of those that have said nothing, or of those whose hello was right, whichever are
// more: however many are silent, half of the places are left to handshakes, and the other way
// round. Those that wait for their node to be added come last. False: there is none.
bool backend::drop_oldest_stranger() {
  struct {
    greeting* oldest = nullptr;
    std::size_t count = 0;
  } silent, greeted, parked;
  for (const auto& one : greetings_) {
    if (one->dials()) continue;
    auto& group = one->at() == greeting::step::awaits_hello ? silent
                  : one->at() == greeting::step::parked     ? parked
                                                            : greeted;
    if (group.count++ == 0) group.oldest = one.get();
  }
  auto* const which = silent.count + greeted.count == 0 ? parked.oldest
                      : silent.count >= greeted.count   ? silent.oldest
                                                        : greeted.oldest;
  if (!which) return false;
  stranger(*which);
  end(which->id, *which);
  return true;
}

void backend::count_stranger(greeting& one, bool counts) {
  if (one.counted == counts) return;
  one.counted = counts;
  counts ? ++strangers_now_ : --strangers_now_;
}

void backend::stranger(const greeting& one) {
  const auto count = strangers_.fetch_add(1) + 1;
  if ((count & (count - 1)) != 0) return;  // the 1st, 2nd, 4th, ...
  // One that goes by itself may be a member whose own call has been overtaken by that of this node,
  // or a stranger that looks whether a port is open.
  log().log(one.gone() ? spdlog::level::debug : spdlog::level::warn,
            "rank {}: a connection from {} was closed: {} ({} such so far)", options_.rank,
            to_string(one.from()), one.why().empty() ? "it has proved nothing in time" : one.why(),
            count);
}

void backend::act_on(std::uint64_t id, greeting& one, greeting::outcome what) {
  switch (what) {
    case greeting::outcome::waits:
      if (one.dials() && one.at() == greeting::step::awaits_challenge && !one.said_hello) {
        one.said_hello = true;
        one.to()->listens = true;
        one.said_at = steady::now();
        one.due =
            steady::now() + (one.to()->ever_open ? std::chrono::nanoseconds(options_.limit)
                                                 : std::chrono::nanoseconds(greeting_timeout));
        rewatch(id, one.fd(), EPOLLIN);
      }
      return;
    case greeting::outcome::greeted: return greeted(id, one);
    case greeting::outcome::proven: return proven(id, one);
    case greeting::outcome::failed: return failed(id, one);
  }
}

// Listener, after message 1: somebody with the job's secret wants a connection, or its hello is a
// replay.
void backend::greeted(std::uint64_t id, greeting& one) {
  const auto& claim = one.claim();
  if (one.at() == greeting::step::parked) {
    one.unpark();
    one.expected_failure = false;
    count_stranger(one, true);
  }
  if (claim.to != options_.rank || claim.to_id != id_ || claim.from == options_.rank) {
    one.refuse("it asks for another node");
    return failed(id, one);
  }
  if (claim.protection != options_.protection) {
    one.refuse("it protects its connections in another way");
    return failed(id, one);
  }
  auto* const p = peers_.find(claim.from);
  if (!p || p->where.id != claim.from_id) {
    // A node has one such connection: an earlier one has failed at its end, or one is a replay.
    std::size_t parked = 0;
    greeting* earlier = nullptr;
    for (const auto& other : greetings_) {
      if (other->at() != greeting::step::parked) continue;
      ++parked;
      if (other->claim().from == claim.from && other->claim().from_id == claim.from_id)
        earlier = other.get();
    }
    if (earlier && claim.kind == stream_kind::messages) {
      --parked;
      earlier->refuse("another connection claims to be of the same node");
      stranger(*earlier);
      end(earlier->id, *earlier);
    }
    if (claim.kind == stream_kind::bulk || parked >= most_parked) {
      one.refuse("it is a node that this one does not know");
      return failed(id, one);
    }
    one.park();
    one.expected_failure = true;
    one.due = steady::now() + time_parked;
    attend_by(one.due);
    count_stranger(one, false);
    return;
  }
  if (claim.kind == stream_kind::bulk &&
      (!p->messages || p->messages->connection() != claim.beside)) {
    one.refuse("its connection for messages is not here");
    return failed(id, one);
  }
  if (claim.kind == stream_kind::bulk) one.beside = p->messages;
  // Both may call at once: the call of the lower rank counts. It has come through, since the hello
  // has been said.
  const auto ours_counts = [&](const std::unique_ptr<greeting>& other) {
    return other->to() == p && other->claim().kind == stream_kind::messages &&
           other->at() == greeting::step::awaits_challenge && options_.rank < p->rank &&
           steady::now() - other->said_at < time_for_a_call;
  };
  if (claim.kind == stream_kind::messages && std::ranges::any_of(greetings_, ours_counts)) {
    one.refuse("this node calls it already");
    one.expected_failure = true;
    return failed(id, one);
  }
  one.due = steady::now() + time_to_prove;
  attend_by(one.due);
  act_on(id, one, one.respond());
}

void backend::end(std::uint64_t id, greeting& one) {
  count_stranger(one, false);
  if (id != 0) unwatch(id, one.fd());
  greetings_.erase(one.place);
}

// This node's own calls to `p`.
void backend::end_calls(const peer& p, stream_kind kind) {
  for (auto it = greetings_.begin(); it != greetings_.end();) {
    auto& one = **it++;
    if (one.to() == &p && one.claim().kind == kind) end(one.id, one);
  }
}

void backend::failed(std::uint64_t id, greeting& one) {
  auto* const p = one.to();
  if (!p) {
    if (!one.expected_failure) stranger(one);
    return end(id, one);
  }
  const auto kind = one.claim().kind;
  const auto error = one.error();
  const auto why = one.why();
  const auto index = one.index;
  const auto attempt = one.attempt;
  end(id, one);
  const auto now = steady::now();
  if (kind == stream_kind::bulk) {
    --p->bulk_dials;
    if (!p->messages) return;
    if (attempt + 1 < p->where.places.size()) return dial(*p, kind, index, attempt + 1);
    return bulk_failed(*p, index, why);
  }
  p->dialing = false;
  ++p->attempts;
  if (p->trouble.empty()) p->trouble = why;
  if (p->messages || p->status == peer::state::gone) return;
  // Its other places may not be reachable from here at all. One that does not answer may do so yet.
  if (refused(error))
    ++p->refusals;
  else if (error == 0 || error == ETIMEDOUT)
    p->refusals = 0;
  if (p->refusals >= most_refusals && p->attempts >= most_refusals * p->where.places.size()) {
    return lose(*p, {loss_kind::broken, "its host refuses connections: " + p->trouble});
  }
  // Its places are tried one after the other, and again a while later.
  const auto rounds = p->attempts / p->where.places.size();
  const bool others = p->attempts % p->where.places.size() != 0;
  p->dial_at = now + (others           ? 0ms
                      : refused(error) ? time_between_calls
                                       : time_between_calls *
                                             static_cast<int>(std::min<std::size_t>(rounds, 10)));
  attend_by(p->dial_at);
}

// A stream for large payloads was made at none of the peer's places. Messages go on meanwhile, and
// other such streams carry its share; without any, the peer is out of reach after a while.
void backend::bulk_failed(peer& p, unsigned index, const std::string& why) {
  const auto now = steady::now();
  if (!p.bulk_fails_since) p.bulk_fails_since = now;
  const bool long_since = now - *p.bulk_fails_since > options_.limit;
  if (long_since && p.bulk_out.empty() && p.bulk_dials == 0)
    return broke(p, p.messages, "a stream for large payloads: " + why);
  p.bulk_again.push_back(index);
  p.bulk_again_at = now + (long_since ? time_between_late_calls : time_between_calls);
  look_after(p);
  attend_by(p.bulk_again_at);
}

void backend::call_bulk_again(peer& p) {
  p.bulk_again_at = steady::time_point::max();
  for (const auto index : std::exchange(p.bulk_again, {}))
    if (p.messages) dial(p, stream_kind::bulk, index, 0);
}

// The handshake has ended well. A connection for messages takes the place of the one before
// (`adopt`); one for large payloads is added to the others.
void backend::proven(std::uint64_t id, greeting& one) {
  auto* const p = one.dials() ? one.to() : peers_.find(one.claim().from);
  const bool dialed = one.dials();
  const bool right = p && p->where.id == (dialed ? one.claim().to_id : one.claim().from_id);
  const auto attempt = one.attempt;
  unwatch(id, one.fd());
  std::shared_ptr<stream> s;
  try {
    s = one.make_stream();
    s->id = watch({.what = target::kind::stream, .fd = s->fd(), .flows = s, .of = p}, EPOLLIN);
  } catch (const std::exception& e) {
    one.refuse(e.what());
    return failed(0, one);
  }
  const auto beside = one.beside.lock();
  end(0, one);
  if (dialed && s->kind() == stream_kind::messages) {
    p->dialing = false;
    p->place = (p->place + attempt) % p->where.places.size();
  }
  if (dialed && s->kind() == stream_kind::bulk) --p->bulk_dials;
  // One that belongs to an earlier connection has payloads that are sent again.
  const bool of_earlier = s->kind() == stream_kind::bulk && (!beside || beside != p->messages);
  if (!right || of_earlier) return unwatch(s->id, s->fd());
  if (p->status == peer::state::gone) {
    unwatch(s->id, s->fd());
    if (s->kind() == stream_kind::bulk) return;
    // This node has closed the connection, or given the other one up: that one shall know.
    stream::sent_records sent;
    s->say_leave(sent);
    return linger(std::move(s));
  }
  if (s->kind() == stream_kind::messages) return adopt(*p, std::move(s));
  auto& others = dialed ? p->bulk_out : p->bulk_in;
  others.push_back(std::move(s));
  if (dialed) {
    p->bulk_fails_since.reset();
    any_bulk_ = true;
  } else if (others.size() > most_bulk_streams) {
    lose(*p, {loss_kind::broken, fmt::format("it has made more than {} streams for large payloads",
                                             most_bulk_streams)});
  }
}

}  // namespace troupe::transport::tcp
