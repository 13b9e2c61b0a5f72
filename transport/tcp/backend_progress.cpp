// What the progressing thread does: orders of others, polling, deliveries, acknowledgements.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/spin_pause.hpp"
#include "troupe/transport/tcp/backend.hpp"

namespace troupe::transport::tcp {

namespace {

using namespace std::chrono_literals;

// The stream that has delivered last is read without asking epoll, but for every so many polls.
constexpr unsigned polls_between_looks = 4;
// Looks at it in one poll: all else that a poll does takes as long as a look.
constexpr unsigned hot_looks = 4;
// So many of them have brought something: epoll need not watch the stream.
constexpr unsigned looks_until_unwatched = 32;
constexpr unsigned polls_between_acknowledgements = 1024;
// Read from a stream of messages before others have their turn.
constexpr std::size_t read_at_once = 1024 * 1024;

// Between two looks at a socket: each locks it, and what arrives meanwhile has to wait.
constexpr int pauses_between_looks = 16;

}  // namespace

unsigned backend::progress() {
  unsigned n = 0;
  ++polls_;
  if (!confirming_.empty()) take_acknowledgements();
  if (any_orders_.load(std::memory_order_acquire)) n += carry_out_orders();
  const bool payloads = !payloads_.empty() || !bulk_peers_.empty();
  if (std::exchange(delivered_, false) && payloads) let_receiver_run();
  if (hot_ != 0 && !payloads && polls_ % polls_between_looks != 0) {
    n += look_at_hot();
  } else {
    if (hot_unwatched_) n += read(hot_, read_at_once);
    n += poll();
  }
  if (any_own_.load(std::memory_order_acquire)) n += take_own();
  const auto delivered = deliver();
  n += delivered;
  // Whoever waits for what has come goes on before the next chunk of a payload, but payloads have
  // every second turn. Of these turns, payloads to be sent have at least every second one.
  put_off_ = delivered > 0 && !put_off_;
  if (!put_off_) {
    n += payloads_.empty() ? 0 : 1;
    sending_put_off_ = !read_payloads() && !sending_put_off_;
    if (!sending_put_off_ && (any_bulk_.load(std::memory_order_acquire) || !bulk_peers_.empty()))
      n += pump_bulk();
    if (payloads || !payloads_.empty()) let_others_run();
  }
  // Not between a message and whoever waits for it.
  if (polls_ % 16 == 0 || (n > 0 && delivered == 0 && ready_.empty())) n += attend(steady::now());
  if (owing_much_ || polls_ % polls_between_acknowledgements == 0)
    n += acknowledge(polls_ % polls_between_acknowledgements == 0);
  return n + deliver();
}

// A stream that brings one message after the other is not watched: what arrives would be put into
// epoll's list, at the price of a lock and at the sender's expense, and taken out of it at the next
// poll.
unsigned backend::look_at_hot() {
  unsigned n = 0;
  for (unsigned looks = 0; n == 0 && hot_ != 0 && looks < hot_looks; ++looks) {
    if (looks > 0)
      for (int i = 0; i < pauses_between_looks; ++i) spin_pause();
    n += read(hot_, read_at_once);
  }
  if (n > 0 && hot_ != 0 && !hot_unwatched_ && ++hot_reads_ >= looks_until_unwatched)
    watch_hot(false);
  return n;
}

void backend::set_hot(std::uint64_t id) {
  if (hot_ == id) return;
  if (hot_unwatched_) watch_hot(true);
  if (hot_unwatched_) return;
  hot_ = id;
  hot_reads_ = 0;
}

// What has arrived before it is watched again is an event at once. If the system refuses to watch
// it, it stays the stream that is looked at all the time.
void backend::watch_hot(bool yes) {
  const auto at = targets_.find(hot_);
  if (at == targets_.end() || at->second.what != target::kind::stream) return;
  auto& p = *at->second.of;
  const auto& s = at->second.flows;
  const std::lock_guard lock(p.mutex);  // senders have it watched for room to write
  const bool wants_write = p.messages == s && p.wants_write;
  if (!yes && wants_write) return;
  if (rewatch(hot_, s->fd(), (yes ? EPOLLIN : 0u) | (wants_write ? EPOLLOUT : 0u)))
    hot_unwatched_ = !yes;
  if (yes) hot_reads_ = 0;
}

unsigned backend::carry_out_orders() {
  std::vector<order> orders;
  {
    const std::lock_guard lock(orders_mutex_);
    orders.swap(orders_);
    any_orders_.store(false, std::memory_order_relaxed);
  }
  for (auto& one : orders) {
    auto& p = *one.about;
    switch (one.what) {
      case order::kind::added: {
        if (p.rank == options_.rank) break;  // see take_own
        watch_process_of(p);
        // One of the two calls; the other one does too if it is not called soon.
        if (p.wanted) call(p, options_.rank > p.rank ? 0ms : 50ms);
        std::vector<greeting*> waiting;
        for (const auto& g : greetings_)
          if (g->at() == greeting::step::parked && g->claim().from == p.rank)
            waiting.push_back(g.get());
        for (auto* g : waiting)
          if (g->claim().from_id == p.where.id) greeted(g->id, *g);
        break;
      }
      case order::kind::call: call(p, 0ms); break;
      case order::kind::close: close(p, false); break;
      case order::kind::force_close: close(p, true); break;
      case order::kind::broke: broke(p, one.which, one.why); break;
    }
  }
  return static_cast<unsigned>(orders.size());
}

unsigned backend::poll() {
  std::array<epoll_event, 32> events;
  payloads_.clear();
  const int found = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  unsigned n = 0;
  for (int i = 0; i < found; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    const auto id = event.data.u64;
    const auto at = targets_.find(id);
    if (at == targets_.end()) continue;  // an earlier event has ended it
    switch (at->second.what) {
      case target::kind::wake:
      case target::kind::timer: {
        std::uint64_t any;
        [[maybe_unused]] const auto read = ::read(at->second.fd, &any, sizeof any);
        if (at->second.what == target::kind::timer) n += attend(steady::now());
        break;
      }
      case target::kind::listener: n += accept_all(at->second.fd); break;
      case target::kind::greeting: {
        auto& one = *at->second.greets;
        act_on(id, one, one.advance());
        ++n;
        break;
      }
      case target::kind::process:
        process_ended(*at->second.of);
        ++n;
        break;
      case target::kind::lingering: {
        std::array<std::byte, 4096> dropped;
        ssize_t got = 0;
        for (int i = 0; i < 64; ++i) {
          got = ::recv(at->second.fd, dropped.data(), dropped.size(), MSG_DONTWAIT);
          if (got <= 0) break;
        }
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) unwatch(id, at->second.fd);
        ++n;
        break;
      }
      case target::kind::stream: {
        const auto s = at->second.flows;
        auto& p = *at->second.of;
        if (event.events & EPOLLOUT) {
          if (s->kind() == stream_kind::bulk) {
            s->writable();
            rewatch(id, s->fd(), EPOLLIN);
            any_bulk_ = true;
          } else {
            stream::sent_records sent;  // dropped after the lock
            const std::lock_guard lock(p.mutex);
            s->writable();
            if (p.messages == s) {
              p.wants_write = false;
              rewatch(id, s->fd(), EPOLLIN);
              flush(p, sent);
            }
          }
          ++n;
        }
        if (event.events & (EPOLLIN | EPOLLERR | EPOLLHUP | EPOLLRDHUP)) {
          if (s->kind() == stream_kind::bulk) {
            payloads_.push_back(id);
            break;
          }
          n += read(id, read_at_once);
          if (targets_.contains(id)) set_hot(id);
        }
        break;
      }
    }
  }
  return n;
}

// Reads what a stream has.
unsigned backend::read(std::uint64_t id, std::size_t most) {
  auto one = reading_of(id);
  if (!one) return 0;
  const auto before = ready_.size();
  receive(*one, most, false);
  settle(*one, before);
  return received(*one);
}

std::optional<backend::reading> backend::reading_of(std::uint64_t id) const {
  const auto at = targets_.find(id);
  if (at == targets_.end()) return std::nullopt;
  return reading{at->second.flows, at->second.of};
}

// On the progressing thread, or on another one `beside` it.
void backend::receive(reading& one, std::size_t most, bool beside) noexcept {
  try {
    record_taker to(*this, *one.of, one.from->kind(), beside);
    one.outcome = one.from->receive(to, most, one.count, one.why);
  } catch (const std::exception& e) {
    one.nonsense = e.what();
  }
}

// After it, on the progressing thread. `before`: so many messages were there when it began. A peer
// that sends what makes no sense is lost: though it has the secret, another connection would not
// help.
void backend::settle(reading& one, std::size_t before) {
  auto& p = *one.of;
  if (one.nonsense) {
    lose(p, {loss_kind::broken, fmt::format("it sent a malformed record: {}", *one.nonsense)});
    ++one.count;
  }
  // This node has closed the connection: nothing more of it is delivered.
  if (p.status != peer::state::live) {
    const auto first =
        ready_.begin() + static_cast<std::ptrdiff_t>(std::min(before, ready_.size()));
    const auto of_it = [&](const auto& message) { return message.from == p.rank; };
    ready_.erase(std::remove_if(first, ready_.end(), of_it), ready_.end());
  }
  // For `transmit`: the next message that goes there says so.
  if (one.count > 0 && p.status != peer::state::gone)
    p.expected.store(p.parts.expected(), std::memory_order_release);
  if (one.outcome == stream::outcome::ended) one.why = peer_left().text;
}

// What follows from it, once all that was read beside it is settled: this may take what else there
// is of a peer, and end it. Returns the number of events.
unsigned backend::received(reading& one) {
  auto& p = *one.of;
  if (one.outcome == stream::outcome::ended || one.outcome == stream::outcome::broken) {
    broke(p, one.from, one.why);
    return one.count + 1;
  }
  if (p.left) {
    take_what_is_left(p);
    lose(p, peer_left());
  }
  return one.count;
}

// Before its connections are ended: what of its messages and payloads has come, its leave perhaps.
// So much and no more (8 MiB of each stream of payloads): it may go on sending.
void backend::take_what_is_left(peer& p) {
  const auto take = [&](const std::shared_ptr<stream>& s, std::size_t most, int times) {
    auto outcome = stream::outcome::more;
    for (int i = 0; i < times && outcome == stream::outcome::more && p.messages; ++i) {
      reading one{s, &p};
      const auto before = ready_.size();
      receive(one, most, false);
      settle(one, before);
      outcome = one.outcome;
    }
  };
  if (const auto messages = p.messages) take(messages, read_at_once, 16);
  for (const auto& s : std::vector(p.bulk_in)) take(s, largest_chunk, 64);
}

// ---- Acknowledgements

unsigned backend::acknowledge(bool all) {
  unsigned n = 0;
  owing_much_ = false;
  std::erase_if(owing_, [&](peer* p) {
    if (!all && p->owed_messages < most_owed_messages && p->owed_bytes < most_owed_bytes)
      return false;
    const auto expected = p->parts.expected();
    // Before the lock: a message that is sent after it says no less than `acknowledged`.
    p->expected.store(expected, std::memory_order_release);
    stream::sent_records sent;  // dropped after the lock
    const std::lock_guard lock(p->mutex);
    if (p->messages && p->open && expected > p->acknowledged.load(std::memory_order_relaxed)) {
      record_head head;
      head.kind = record_kind::acknowledgement;
      head.expected = expected;
      p->acknowledged.store(expected, std::memory_order_relaxed);
      p->messages->add({head, nullptr, nullptr});
      flush(*p, sent);
      ++n;
    }
    p->owing = false;
    p->owed_messages = p->owed_bytes = 0;
    return true;
  });
  return n;
}

// What is acknowledged is dropped, with no lock held: its memory may be the program's, which may
// send. No event: nobody waits for it.
void backend::take_acknowledgements() {
  for (auto* p : confirming_) {
    p->confirming = false;
    p->unacknowledged.acknowledge(p->confirmed);
    if (std::exchange(p->window_full, false)) any_bulk_.store(true);
  }
  confirming_.clear();
}

// Messages of this node to itself need no connection: payloads are copied, as they would be.
unsigned backend::take_own() {
  // Relaxed, and before the look: see `send`.
  any_own_.store(false, std::memory_order_relaxed);
  auto& p = *peers_.find(options_.rank);
  unsigned n = 0;
  for (const auto& m : p.unacknowledged.all()) {
    p.parts.envelope(m->sequence, m->order, m->payloads.size(), frame(m->envelope.bytes()), ready_);
    for (std::size_t i = 0; i < m->payloads.size(); ++i) {
      const auto& from = m->payloads[i];
      incoming_payload to{nullptr, from.size, from.place};
      if (from.size > 0) {
        to.data = pool_.allocate(from.size, from.place);
        std::memcpy(to.data.get(), from.data, from.size);
      }
      p.parts.payload(m->sequence, i, std::move(to), ready_);
    }
    p.unacknowledged.acknowledge(m->sequence + 1);
    ++n;
  }
  return n;
}

unsigned backend::deliver() {
  if (ready_.empty() && lost_.empty()) return 0;
  count_message();
  delivered_ = true;
  const auto n = static_cast<unsigned>(ready_.size() + lost_.size());
  std::uint64_t bytes = 0;
  for (const auto& message : ready_) {
    bytes += message.envelope.size();
    for (const auto& payload : message.payloads) bytes += payload.size;
  }
  // One thread at a time delivers: nothing need be locked to count.
  const auto add = [](std::atomic<std::uint64_t>& to, std::uint64_t more) {
    to.store(to.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  };
  add(messages_received_, ready_.size());
  add(bytes_received_, bytes);
  for (auto& message : ready_) sink_.on_message(std::move(message));
  ready_.clear();
  for (auto& [rank, why] : std::exchange(lost_, {})) sink_.on_peer_lost(rank, std::move(why));
  return n;
}

bool backend::arm() {
  acknowledge(true);
  // Orders that come after this look bring a wake. For messages to this node and bulk payloads
  // `send` returns true, and its caller sees to it that `progress` is called.
  if (any_orders_.load(std::memory_order_acquire) || any_own_.load() ||
      any_bulk_.load(std::memory_order_acquire) || !bulk_peers_.empty() || !ready_.empty() ||
      !lost_.empty() || !confirming_.empty())
    return false;
  itimerspec when{};
  if (attend_at_ != steady::time_point::max()) {
    const auto now = steady::now();
    if (attend_at_ <= now) return false;
    const auto left = std::chrono::nanoseconds(attend_at_ - now).count();
    when.it_value.tv_sec = left / 1'000'000'000;
    when.it_value.tv_nsec = left % 1'000'000'000;
  }
  timerfd_settime(timer_.get(), 0, &when, nullptr);
  if (hot_unwatched_) watch_hot(true);
  return !hot_unwatched_;
}

}  // namespace troupe::transport::tcp
