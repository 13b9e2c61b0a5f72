// Connections: how they are made, what becomes of them, and when a peer is given up.
#include <fmt/format.h>
#include <netinet/tcp.h>
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
constexpr auto time_to_connect = 1s;
constexpr auto time_parked = 60s;  // a member calls again
constexpr auto patience = 30s;     // with a node that listens and has not added this one yet
constexpr auto time_to_close = 1s;
constexpr auto time_to_linger = 1s;
constexpr auto time_without_listening = 100ms;
constexpr unsigned most_refusals = 5;
constexpr unsigned most_flaps = 20;
constexpr auto time_for_a_call = 500ms;  // ours, before the other side's own counts as well
constexpr unsigned accepts_at_once = 16;

// `limit`: what is not acknowledged for so long ends the connection, and so does a silence.
void set_options(int fd, std::chrono::milliseconds keepalive, std::chrono::milliseconds limit) {
  const auto set = [fd](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value);
  };
  const auto seconds = static_cast<int>(std::max<std::int64_t>(1, keepalive.count() / 1000));
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, seconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limit.count() * 4 / 5));
}

bool refused(int error) { return error == ECONNREFUSED; }

}  // namespace

// ---- The epoll set

std::uint64_t backend::watch(target&& one, std::uint32_t events) {
  const auto id = ++last_target_;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, one.fd, &event) != 0)
    throw transport_error(fmt::format("epoll takes no descriptor: {}", std::strerror(errno)));
  targets_.emplace(id, std::move(one));
  return id;
}

void backend::rewatch(std::uint64_t id, int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void backend::unwatch(std::uint64_t id, int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  targets_.erase(id);
  if (hot_ == id) hot_ = 0;
}

// ---- Handshakes

void backend::dial(peer& p, stream_kind kind) {
  const auto& places = p.where.places;
  // A stream for large payloads goes where the messages go.
  const auto& to = places[(p.place + (kind == stream_kind::bulk ? 0 : p.attempts)) % places.size()];
  const auto open = [&] {
    return ::socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  };
  int made_fd = open();
  while (made_fd < 0 && (errno == EMFILE || errno == ENFILE) && drop_oldest_stranger())
    made_fd = open();
  unique_fd fd(made_fd);
  const auto now = steady::now();
  int error = fd ? 0 : errno;
  if (fd) {
    set_options(fd.get(), options_.keepalive, options_.limit);
    if (::connect(fd.get(), to.get(), to.length) != 0 && errno != EINPROGRESS) error = errno;
  }
  const stream_claim claim{options_.rank, p.rank, id_, p.where.id, kind, options_.protection};
  const int number = fd.get();
  auto made = std::make_unique<greeting>(options_.secret, std::move(fd), claim, p);
  made->due = now + time_to_connect;
  if (kind == stream_kind::messages)
    p.dialing = true;
  else
    ++p.bulk_dials;
  auto& one = *made;
  one.place = greetings_.insert(greetings_.end(), std::move(made));
  if (error != 0) {  // at once, as over the loopback interface
    one.set_failed(error);
    failed(0, one);
    return;
  }
  attend_at_ = std::min(attend_at_, one.due);
  one.id =
      watch({.what = target::kind::greeting, .fd = number, .greets = &one}, EPOLLIN | EPOLLOUT);
}

unsigned backend::accept_all(int listener) {
  unsigned n = 0;
  while (n < accepts_at_once) {
    socket_address from;
    from.length = sizeof from.storage;
    const int fd = ::accept4(listener, reinterpret_cast<sockaddr*>(&from.storage), &from.length,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EMFILE && errno != ENFILE) return n;
      if (drop_oldest_stranger()) continue;
      // Nobody is let in until there may be descriptors again, and nothing spins.
      for (auto& [id, one] : targets_)
        if (one.what == target::kind::listener) rewatch(id, one.fd, 0);
      listen_again_at_ = steady::now() + time_without_listening;
      attend_at_ = std::min(attend_at_, listen_again_at_);
      return n;
    }
    ++n;
    unique_fd owned(fd);
    set_options(fd, options_.keepalive, options_.limit);
    if (strangers_now_ >= most_strangers) drop_oldest_stranger();
    auto made = std::make_unique<greeting>(options_.secret, std::move(owned), from);
    made->due = steady::now() + time_to_prove;
    attend_at_ = std::min(attend_at_, made->due);
    auto& one = *made;
    one.place = greetings_.insert(greetings_.end(), std::move(made));
    count_stranger(one, true);
    one.id = watch({.what = target::kind::greeting, .fd = fd, .greets = &one}, EPOLLIN);
  }
  return n;
}

// False: there is none.
bool backend::drop_oldest_stranger() {
  for (const auto& one : greetings_) {
    if (one->dials() || one->at() == greeting::step::parked) continue;
    stranger(*one);
    end(one->id, *one);
    return true;
  }
  return false;
}

void backend::count_stranger(greeting& one, bool counts) {
  if (one.counted == counts) return;
  one.counted = counts;
  counts ? ++strangers_now_ : --strangers_now_;
}

void backend::stranger(const greeting& one) {
  const auto count = strangers_.fetch_add(1) + 1;
  if ((count & (count - 1)) != 0) return;  // the 1st, 2nd, 4th, ...
  log().warn("rank {}: a connection from {} was closed: {} ({} such so far)", options_.rank,
             to_string(one.from()), one.why().empty() ? "it has proved nothing in time" : one.why(),
             count);
}

unsigned backend::advance(std::uint64_t id, greeting& one) {
  act_on(id, one, one.advance());
  return 1;
}

void backend::act_on(std::uint64_t id, greeting& one, greeting::outcome what) {
  switch (what) {
    case greeting::outcome::waits:
      if (one.dials() && one.at() == greeting::step::awaits_challenge && !one.said_hello) {
        one.said_hello = true;
        one.said_at = steady::now();
        one.due = steady::now() + (one.to()->ever_open ? std::chrono::nanoseconds(options_.limit)
                                                       : std::chrono::nanoseconds(patience));
        rewatch(id, one.fd(), EPOLLIN);
      }
      return;
    case greeting::outcome::greeted: return greeted(id, one);
    case greeting::outcome::proven: return proven(id, one);
    case greeting::outcome::failed: return failed(id, one);
  }
}

// Somebody with the job's secret wants a connection.
void backend::greeted(std::uint64_t id, greeting& one) {
  const auto& claim = one.claim();
  if (one.at() == greeting::step::parked) {
    one.unpark();
    one.expected_failure = false;
    count_stranger(one, true);
  }
  if (claim.to != options_.rank || claim.to_id != id_ || claim.from == options_.rank) {
    one.refuse("it wants another node than this one");
    return failed(id, one);
  }
  if (claim.protection != options_.protection) {
    one.refuse("it protects its connections in another way");
    return failed(id, one);
  }
  auto* const p = peers_.find(claim.from);
  if (!p || p->where.id != claim.from_id) {
    std::size_t parked = 0;
    for (const auto& other : greetings_) parked += other->at() == greeting::step::parked;
    if (claim.kind == stream_kind::bulk || parked >= most_parked) {
      one.refuse("it is no node that this one has been told of");
      return failed(id, one);
    }
    one.park();
    one.expected_failure = true;
    one.due = steady::now() + time_parked;
    attend_at_ = std::min(attend_at_, one.due);
    count_stranger(one, false);
    return;
  }
  if (claim.kind == stream_kind::bulk && !p->messages) {
    one.refuse("it has no connection for messages");
    return failed(id, one);
  }
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
  attend_at_ = std::min(attend_at_, one.due);
  act_on(id, one, one.respond());
}

void backend::end(std::uint64_t id, greeting& one) {
  count_stranger(one, false);
  if (id != 0) unwatch(id, one.fd());
  greetings_.erase(one.place);
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
  end(id, one);
  const auto now = steady::now();
  if (kind == stream_kind::bulk) {
    --p->bulk_dials;
    if (p->messages) broke(*p, p->messages, "a stream for large payloads: " + why);
    return;
  }
  p->dialing = false;
  ++p->attempts;
  if (p->trouble.empty()) p->trouble = why;
  if (p->messages || p->status == peer::state::gone) return;
  p->refusals = refused(error) ? p->refusals + 1 : 0;
  if (p->refusals >= most_refusals * p->where.places.size()) {
    p->left ? lose(*p, {loss_kind::left, "it has left"})
            : lose(*p, {loss_kind::broken, "its host refuses connections: " + p->trouble});
    return;
  }
  // Its places are tried one after the other, and again a while later.
  const auto rounds = p->attempts / p->where.places.size();
  const bool others = p->attempts % p->where.places.size() != 0;
  p->dial_at =
      now + (others           ? 0ms
             : refused(error) ? 50ms
                              : 50ms * static_cast<int>(std::min<std::size_t>(rounds, 10)));
  attend_at_ = std::min(attend_at_, p->dial_at);
}

void backend::proven(std::uint64_t id, greeting& one) {
  auto* const p = one.dials() ? one.to() : peers_.find(one.claim().from);
  const bool dialed = one.dials();
  const bool right = p && p->where.id == (dialed ? one.claim().to_id : one.claim().from_id);
  unwatch(id, one.fd());
  auto s = one.make_stream();
  end(0, one);
  if (dialed && s->kind() == stream_kind::messages) p->dialing = false;
  if (dialed && s->kind() == stream_kind::bulk) --p->bulk_dials;
  if (!right || (s->kind() == stream_kind::bulk && !p->messages)) return;
  if (p->status == peer::state::gone) {
    if (s->kind() == stream_kind::bulk) return;
    // This node has closed the connection, or given the other one up: that one shall know.
    std::string ignored;
    s->add({{.kind = record_kind::leave}, nullptr, nullptr});
    s->flush(ignored);
    return linger(std::move(s));
  }
  if (s->kind() == stream_kind::messages) return adopt(*p, std::move(s));
  s->id = watch({.what = target::kind::stream, .fd = s->fd(), .flows = s, .of = p}, EPOLLIN);
  (dialed ? p->bulk_out : p->bulk_in).push_back(std::move(s));
  if (dialed) any_bulk_ = true;
}

// ---- Connections for messages

// What went before is sent again on the new connection, once the other side has said what it has.
void backend::adopt(peer& p, std::shared_ptr<stream> s) {
  drop_streams(p, false);
  for (auto it = greetings_.begin(); it != greetings_.end();) {  // both had called
    auto& one = **it++;
    if (one.to() != &p || one.claim().kind != stream_kind::messages) continue;
    p.dialing = false;
    end(one.id, one);
  }
  s->id = watch({.what = target::kind::stream, .fd = s->fd(), .flows = s, .of = &p}, EPOLLIN);
  const auto where = peer_address(s->fd());
  const auto here = local_address(s->fd());
  std::string interface = "?";
  for (const auto& one : places_)
    if (one.where.has_host_of(here)) interface = one.interface;
  const std::lock_guard lock(p.mutex);
  p.messages = std::move(s);
  p.open = false;
  p.wants_write = false;
  p.lanes = fmt::format("tcp/{} to {}, {} streams for payloads of {} KiB and more", interface,
                        to_string(where), options_.bulk_streams, options_.bulk_threshold / 1024);
  record_head head;
  head.kind = record_kind::resume;
  head.expected = p.parts.expected();
  p.expected.store(head.expected, std::memory_order_release);
  p.told.store(head.expected, std::memory_order_relaxed);
  p.messages->add({head, nullptr, nullptr});
  flush(p);
}

void backend::resumed(peer& p, std::uint64_t expected) {
  const std::lock_guard lock(p.mutex);
  if (p.open) throw decode_error("it resumes twice");
  if (expected > p.next_sequence) throw decode_error("it acknowledges what was never sent");
  p.unacknowledged.acknowledge(expected);
  p.ever_open = true;
  p.place = (p.place + p.attempts) % p.where.places.size();
  p.refusals = p.attempts = 0;
  p.dial_at = steady::time_point::max();
  p.trouble.clear();
  for (const auto& m : p.unacknowledged.all()) transmit(p, m);
  p.open = true;
  flush(p);
}

// Its connections end; what was under way on them is sent or received again on others.
void backend::drop_streams(peer& p, bool says_leave) {
  std::shared_ptr<stream> messages;
  {
    const std::lock_guard lock(p.mutex);
    messages = std::move(p.messages);
    p.messages = nullptr;
    p.open = false;
    p.wants_write = false;
  }
  {
    const std::lock_guard lock(p.bulk_mutex);
    p.bulk.clear();
    p.bulk_unsent.store(0);
    p.bulk_busy.store(false);
  }
  for (auto it = greetings_.begin(); it != greetings_.end();) {
    auto& one = **it++;
    if (one.to() == &p && one.claim().kind == stream_kind::bulk) end(one.id, one);
  }
  p.bulk_dials = 0;
  for (auto* all : {&p.bulk_in, &p.bulk_out}) {
    for (const auto& s : *all) unwatch(s->id, s->fd());
    all->clear();
  }
  p.arriving.clear();
  p.large_envelope = frame();
  if (!messages) return;
  unwatch(messages->id, messages->fd());
  if (!says_leave) return;
  std::string ignored;
  messages->add({{.kind = record_kind::leave}, nullptr, nullptr});
  messages->flush(ignored);
  linger(std::move(messages));
}

// The kernel would take back what it has not delivered if the socket were closed while there is
// something to read.
void backend::linger(std::shared_ptr<stream> s) {
  ::shutdown(s->fd(), SHUT_WR);
  const auto until = steady::now() + time_to_linger;
  attend_at_ = std::min(attend_at_, until);
  const int fd = s->fd();
  watch({.what = target::kind::lingering, .fd = fd, .flows = std::move(s), .until = until},
        EPOLLIN);
}

void backend::broke(peer& p, const std::shared_ptr<stream>& s, const std::string& why) {
  const bool timed_out = why == std::strerror(ETIMEDOUT);
  const bool of_messages = p.messages == s;
  const bool known =
      of_messages || std::ranges::count(p.bulk_in, s) + std::ranges::count(p.bulk_out, s) > 0;
  if (!known) return;  // of a connection that has been replaced
  if (p.left) return lose(p, {loss_kind::left, "it has left"});
  drop_streams(p, false);
  if (p.status == peer::state::gone) return;
  // Somebody on the way who spoils every connection must not keep this going for ever.
  const auto moved = p.unacknowledged.acknowledged() + p.parts.expected();
  p.flaps = moved == p.moved ? p.flaps + 1 : 0;
  p.moved = moved;
  if (p.flaps > most_flaps)
    return lose(p, {loss_kind::broken, "its connections break one after the other: " + why});
  const auto now = steady::now();
  p.trouble = why;
  // TCP has waited for an answer for 4/5 of the limit already.
  p.out_since = timed_out ? now - options_.limit * 4 / 5 : now;
  p.refusals = 0;
  p.dial_at = now + (options_.rank > p.rank ? 0ms : 20ms) + 10ms * p.flaps;
  if (std::ranges::find(out_, &p) == out_.end()) out_.push_back(&p);
  attend_at_ = std::min(attend_at_, p.dial_at);
  log().debug("rank {}: the connection to rank {} broke: {}", options_.rank, p.rank, why);
}

void backend::lose(peer& p, peer_loss why) {
  {
    const std::lock_guard lock(p.mutex);
    if (p.status == peer::state::gone) return;
    const bool heard = p.status == peer::state::live;
    p.status = peer::state::gone;
    if (p.reason.empty()) p.reason = why.text;
    if (heard) lost_.emplace_back(p.rank, std::move(why));
  }
  drop_streams(p, true);
  p.unacknowledged.clear();
}

// This node has closed the connection.
void backend::close(peer& p, bool force) {
  if (p.status == peer::state::gone) return;
  const bool done = [&] {
    const std::lock_guard lock(p.mutex);
    return p.messages && p.open && p.messages->empty() && p.bulk_unsent == 0 && !p.bulk_busy &&
           p.unacknowledged.size() == 0;
  }();
  const auto now = steady::now();
  if (!force && !done && now < p.close_at) {
    if (p.close_at == steady::time_point::max()) p.close_at = now + time_to_close;
    if (std::ranges::find(out_, &p) == out_.end()) out_.push_back(&p);
    attend_at_ = now + 1ms;  // what it waits for is rarely long in coming
    return;
  }
  lose(p, {});
}

// ---- Time

// One that has not been reached yet may have yet to be told of this node.
std::chrono::milliseconds backend::time_out_of_reach(const peer& p) const {
  return p.ever_open ? options_.limit
                     : std::max<std::chrono::milliseconds>(patience, options_.limit);
}

unsigned backend::attend(steady::time_point now) {
  if (now < attend_at_) return 0;
  attend_at_ = steady::time_point::max();
  for (auto it = greetings_.begin(); it != greetings_.end();) {
    auto& one = **it++;
    if (one.due > now) continue;
    one.refuse(one.dials() ? "it does not answer" : "it has proved nothing in time");
    failed(one.id, one);
    it = greetings_.begin();  // that may have ended others
  }
  if (listen_again_at_ <= now) {
    listen_again_at_ = steady::time_point::max();
    for (auto& [id, one] : targets_)
      if (one.what == target::kind::listener) rewatch(id, one.fd, EPOLLIN);
  }
  std::vector<std::pair<std::uint64_t, int>> over;
  for (const auto& [id, one] : targets_)
    if (one.what == target::kind::lingering && one.until <= now) over.emplace_back(id, one.fd);
  for (const auto& [id, fd] : over) unwatch(id, fd);
  for (std::size_t i = 0; i < out_.size(); ++i) attend(*out_[i], now);
  std::erase_if(out_, [](peer* p) {
    return p->status == peer::state::gone ||
           (p->status == peer::state::live && p->messages && p->open);
  });
  attend_at_ = std::min(attend_at_, next_due());
  return 1;
}

void backend::attend(peer& p, steady::time_point now) {
  if (p.status == peer::state::closing) close(p, now >= p.close_at);
  if (p.status == peer::state::gone || p.messages) return;
  if (const auto limit = time_out_of_reach(p); now - p.out_since > limit)
    return lose(
        p, {loss_kind::broken, fmt::format("it has been out of reach for {} ms: {}", limit.count(),
                                           p.trouble.empty() ? "it does not answer" : p.trouble)});
  if (!p.dialing && now >= p.dial_at) {
    p.dial_at = steady::time_point::max();
    dial(p, stream_kind::messages);
  }
}

steady::time_point backend::next_due() const {
  auto due = listen_again_at_;
  for (const auto& one : greetings_) due = std::min(due, one->due);
  for (const auto& [id, one] : targets_)
    if (one.what == target::kind::lingering) due = std::min(due, one.until);
  for (const auto* p : out_) {
    if (p->status == peer::state::closing) due = std::min(due, steady::now() + 1ms);
    if (p->status == peer::state::gone || p->messages) continue;
    due = std::min(due, p->dial_at);
    due = std::min(due, p->out_since + time_out_of_reach(*p));
  }
  return due;
}

}  // namespace troupe::transport::tcp
