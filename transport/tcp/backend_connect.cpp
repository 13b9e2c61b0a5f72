// What becomes of connections, and when a peer is given up.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/tcp/backend.hpp"

namespace troupe::transport::tcp {

namespace {

using namespace std::chrono_literals;

constexpr auto time_to_close = 1s;
constexpr auto time_to_linger = 1s;
constexpr unsigned most_flaps = 20;
constexpr auto connect_timeout = 10s;

}  // namespace

// ---- Connections for messages

// What went before is sent again on the new connection, which epoll watches, once the other side
// has said what it has. It must do so in time.
void backend::adopt(peer& p, std::shared_ptr<stream> s) {
  if (p.messages && p.ever_open && p.trouble.empty())
    p.trouble = "the other end has made a new one";
  // The old connection has broken, also if its end here is noticed only later.
  if (p.ever_open) p.copies.store(true, std::memory_order_relaxed);
  if (!p.resuming) p.out_since = steady::now();
  drop_streams(p, false);
  end_calls(p, stream_kind::messages);  // both had called
  p.dialing = false;
  p.resuming = p.listens = true;
  look_after(p);
  attend_by(p.out_since + time_out_of_reach(p));
  const auto where = peer_address(s->fd());
  const auto here = local_address(s->fd());
  std::string interface = "?";
  for (const auto& one : places_)
    if (one.at.where.has_host_of(here)) interface = one.interface;
  log().debug("rank {}: rank {} is reached by tcp/{} to {}", options_.rank, p.rank, interface,
              to_string(where));
  stream::sent_records sent;  // dropped after the lock
  const std::lock_guard lock(p.mutex);
  p.messages = std::move(s);
  p.wanted = true;  // from now on, it is called again
  p.open = false;
  p.wants_write = false;
  p.lanes = fmt::format("tcp/{} to {}, {} streams for payloads of {} KiB and more", interface,
                        to_string(where), bulk_streams(), options_.bulk_threshold / 1024);
  // The first record of each end: what has arrived here is not sent again.
  record_head head;
  head.kind = record_kind::resume;
  head.expected = p.parts.expected();
  p.expected.store(head.expected, std::memory_order_release);
  p.acknowledged.store(head.expected, std::memory_order_relaxed);
  p.messages->add({head, nullptr, nullptr});
  flush(p, sent);
}

// The other end's first record: the rest goes out again, and then senders write themselves.
void backend::resumed(peer& p, std::uint64_t expected) {
  {
    const std::lock_guard lock(p.mutex);
    if (p.open) throw decode_error("it resumes twice");
    if (expected > p.next_sequence) throw decode_error("it acknowledges what was never sent");
  }
  // Without the lock: it may drop tensors, and their memory may be the program's, which may send.
  p.confirmed = std::max(p.confirmed, expected);
  p.unacknowledged.acknowledge(p.confirmed);
  p.resuming = false;
  const bool again = std::exchange(p.ever_open, true);
  const auto trouble = std::exchange(p.trouble, {});
  p.refusals = p.attempts = 0;
  p.dial_at = steady::time_point::max();
  {
    stream::sent_records sent;  // dropped after the lock
    const std::lock_guard lock(p.mutex);
    for (const auto& m : p.unacknowledged.all()) transmit(p, m);
    p.open = true;
    flush(p, sent);
  }
  if (!again) return;
  ++p.restorations;
  if (std::has_single_bit(p.restorations))  // the 1st, 2nd, 4th, ...
    log().info("rank {}: the connection to rank {} is restored, which broke: {} ({} times so far)",
               options_.rank, p.rank, trouble, p.restorations);
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
    std::deque<bulk_payload> unsent;  // dropped after the lock
    const std::lock_guard lock(p.bulk_mutex);
    unsent.swap(p.bulk);
    p.bulk_unsent.store(0);
    p.bulk_busy.store(false);
  }
  end_calls(p, stream_kind::bulk);
  p.bulk_dials = 0;
  p.bulk_again.clear();
  p.bulk_fails_since.reset();
  p.resuming = false;
  for (auto* all : {&p.bulk_in, &p.bulk_out}) {
    for (const auto& s : *all) unwatch(s->id, s->fd());
    all->clear();
  }
  p.arriving.clear();
  p.large_envelope = frame();
  if (!messages) return;
  unwatch(messages->id, messages->fd());
  if (!says_leave) return;
  stream::sent_records sent;
  messages->say_leave(sent);
  linger(std::move(messages));
}

// The kernel would take back what it has not delivered if the socket were closed while there is
// something to read.
void backend::linger(std::shared_ptr<stream> s) {
  ::shutdown(s->fd(), SHUT_WR);
  const auto until = steady::now() + time_to_linger;
  attend_by(until);
  const int fd = s->fd();
  try {
    watch({.what = target::kind::lingering, .fd = fd, .flows = std::move(s), .until = until},
          EPOLLIN);
  } catch (const transport_error&) {  // it is closed at once
  }
}

void backend::broke(peer& p, const std::shared_ptr<stream>& s, const std::string& why) {
  const bool timed_out = why == std::strerror(ETIMEDOUT);
  const bool of_messages = p.messages == s;
  const bool known =
      of_messages || std::ranges::count(p.bulk_in, s) + std::ranges::count(p.bulk_out, s) > 0;
  if (!known) return;  // of a connection that has been replaced
  take_what_is_left(p);
  if (p.left) return lose(p, peer_left());
  p.copies.store(true, std::memory_order_relaxed);
  drop_streams(p, false);
  if (p.status == peer::state::gone) return;
  // Somebody on the way who spoils every connection must not keep this going for ever.
  const auto moved = p.confirmed + p.parts.expected();
  p.flaps = moved == p.moved ? p.flaps + 1 : 0;
  p.moved = moved;
  if (p.flaps > most_flaps)
    return lose(p, {loss_kind::broken, "its connections break one after the other: " + why});
  const auto now = steady::now();
  if (p.trouble.empty()) p.trouble = why;  // of several, the first
  // TCP has waited for an answer for 4/5 of the limit already; another interface has all of it.
  p.out_since = timed_out && !leave_interface(p) ? now - options_.limit * 4 / 5 : now;
  p.refusals = 0;
  p.dial_at = now + (options_.rank > p.rank ? 0ms : 20ms) + 10ms * p.flaps;
  look_after(p);
  attend_by(p.dial_at);
  log().debug("rank {}: the connection to rank {} broke: {}", options_.rank, p.rank, why);
}

// From now on it is called at the first place of another interface. False: it has none.
bool backend::leave_interface(peer& p) {
  const auto order = order_of(p, 0, false);
  const auto interface = [&](std::size_t n) {
    return p.where.places[order[n % order.size()]].interface;
  };
  for (std::size_t further = 1; further < order.size(); ++further)
    if (interface(p.place + further) != interface(p.place)) {
      p.place = (p.place + further) % order.size();
      return true;
    }
  return false;
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
  if (p.process) unwatch(p.process_watch, p.process.get());
  p.process.reset();
  drop_streams(p, true);
  p.unacknowledged.clear();
  p.parts = reassembly(p.rank);  // with the memory of what has not come whole
}

// On one host the end of a process is certain, and known at once. One on another host may be alive
// though its host refuses connections.
unique_fd backend::process_of(const tcp::address& there, rank_t rank) const {
  if (there.process == process_ || !apart(process_, there.process).empty()) return unique_fd();
  unique_fd out;
  std::string why;
  try {
    out = unique_fd(watch_process(there.process, why));
  } catch (const transport_error& e) {  // no descriptor is left
    why = e.fault().text;
  }
  if (!out) warn_of_no_watch(rank, why);
  return out;
}

void backend::watch_process_of(peer& p) {
  if (!p.process) return;
  try {
    p.process_watch =
        watch({.what = target::kind::process, .fd = p.process.get(), .of = &p}, EPOLLIN);
  } catch (const error& e) {
    p.process.reset();
    warn_of_no_watch(p.rank, e.fault().text);
  }
}

void backend::warn_of_no_watch(rank_t rank, const std::string& why) const {
  log().warn("rank {}: the end of rank {} is noticed by its connections alone: {}", options_.rank,
             rank, why);
}

// The kernel has closed its connections before. What it has sent lies here, but for what found no
// room: nobody answers for that any more.
void backend::process_ended(peer& p) {
  take_what_is_left(p);
  lose(p, p.left ? peer_left() : peer_loss{loss_kind::ended, "its process has ended"});
}

// This node has closed the connection.
void backend::close(peer& p, bool force) {
  if (p.status == peer::state::gone) return;
  // One that was never connected finds out when it calls.
  if (p.rank == options_.rank || (!p.wanted && !p.messages)) return lose(p, {});
  const bool done = [&] {
    const std::lock_guard lock(p.mutex);
    return p.messages && p.open && p.messages->empty() && p.bulk_unsent == 0 && !p.bulk_busy &&
           p.unacknowledged.size() == 0;
  }();
  const auto now = steady::now();
  if (!force && !done && now < p.close_at) {
    if (p.close_at == steady::time_point::max()) p.close_at = now + time_to_close;
    look_after(p);
    attend_at_ = now + 1ms;  // what it waits for is rarely long in coming
    return;
  }
  lose(p, {});
}

// It shall be connected: from now on it may be out of reach for so long.
void backend::call(peer& p, steady::duration in) {
  if (p.status == peer::state::gone || p.messages || p.dialing) return;
  const auto now = steady::now();
  p.out_since = now;
  p.listens = false;
  p.dial_at = now + in;
  look_after(p);
  attend_by(p.dial_at);
}

// ---- Time

// One that listens and has not answered yet may not know this node yet; and many nodes may call it
// at once while a job begins.
std::chrono::milliseconds backend::time_out_of_reach(const peer& p) const {
  if (p.ever_open) return options_.limit;
  return std::max<std::chrono::milliseconds>(p.listens ? greeting_timeout : connect_timeout,
                                             options_.limit);
}

// It is out of reach, closing, or has something to be done in time: until that is over.
void backend::look_after(peer& p) {
  if (std::ranges::find(out_, &p) == out_.end()) out_.push_back(&p);
}

void backend::attend_by(steady::time_point due) { attend_at_ = std::min(attend_at_, due); }

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
           (p->status == peer::state::live && p->messages && !p->resuming && p->bulk_again.empty());
  });
  attend_by(next_due());
  return 1;
}

void backend::attend(peer& p, steady::time_point now) {
  if (p.status == peer::state::closing) close(p, now >= p.close_at);
  if (p.status == peer::state::gone) return;
  if (p.messages && now >= p.bulk_again_at) call_bulk_again(p);
  if (p.messages && !p.resuming) return;
  // It may have said all, and not been read, if this process had no turn for long.
  if (p.resuming && now - p.out_since > time_out_of_reach(p)) read(p.messages->id, largest_chunk);
  if (p.status == peer::state::gone || (p.messages && !p.resuming)) return;
  if (const auto limit = time_out_of_reach(p); now - p.out_since > limit)
    return lose(
        p, {loss_kind::broken, fmt::format("it has been out of reach for {} ms: {}", limit.count(),
                                           p.trouble.empty() ? "it does not answer" : p.trouble)});
  if (!p.messages && !p.dialing && now >= p.dial_at) {
    p.dial_at = steady::time_point::max();
    dial(p, stream_kind::messages, 0, p.attempts);
  }
}

steady::time_point backend::next_due() const {
  auto due = listen_again_at_;
  for (const auto& one : greetings_) due = std::min(due, one->due);
  for (const auto& [id, one] : targets_)
    if (one.what == target::kind::lingering) due = std::min(due, one.until);
  for (const auto* p : out_) {
    if (p->status == peer::state::closing) due = std::min(due, steady::now() + 1ms);
    if (p->status == peer::state::gone) continue;
    if (!p->bulk_again.empty()) due = std::min(due, p->bulk_again_at);
    if (!p->messages) due = std::min(due, p->dial_at);
    if (!p->messages || p->resuming) due = std::min(due, p->out_since + time_out_of_reach(*p));
  }
  return due;
}

}  // namespace troupe::transport::tcp
