// What the progressing thread does: orders of others, polling, large payloads, acknowledgements.
#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/tcp/backend.hpp"

namespace troupe::transport::tcp {

namespace {

using namespace std::chrono_literals;

// The stream that has delivered last is read without asking epoll, but for every so many polls.
constexpr unsigned polls_between_looks = 8;
constexpr unsigned polls_between_acknowledgements = 1024;
// Read or written at once, before other streams have their turn: what a small call may have to wait
// for. A chunk of a payload takes some 20 us.
constexpr std::size_t read_at_once = 1024 * 1024;
// Read and sent before all else has its turn.
constexpr unsigned chunks_at_once = 2;
constexpr std::size_t most_compared = 64;

// The payload that the next chunk is of. Every second one is of that with the least left to send:
// so a small payload does not wait for all of a large one, and a large one goes on whatever else
// comes. Under the peer's bulk mutex.
std::deque<bulk_payload>::iterator next_payload(peer& p) {
  p.smallest_next = !p.smallest_next;
  if (p.smallest_next || p.bulk.size() == 1) return p.bulk.begin();
  const auto left = [](const bulk_payload& one) {
    return one.message->payloads[one.index].size - one.next;
  };
  const auto some = std::min<std::size_t>(p.bulk.size(), most_compared);
  return std::ranges::min_element(p.bulk.begin(),
                                  p.bulk.begin() + static_cast<std::ptrdiff_t>(some), {}, left);
}

}  // namespace

unsigned backend::progress() {
  unsigned n = 0;
  ++polls_;
  if (any_orders_.load(std::memory_order_acquire)) n += carry_out_orders();
  const bool payloads = !payloads_.empty() || !bulk_peers_.empty();
  if (hot_ != 0 && !payloads && polls_ % polls_between_looks != 0)
    n += read(hot_, read_at_once);
  else
    n += poll();
  if (any_own_.load(std::memory_order_acquire)) n += take_own();
  const auto delivered = deliver();
  n += delivered;
  // Whoever waits for what has come goes on before the next chunk of a payload, but payloads have
  // every second turn.
  put_off_ = delivered > 0 && !put_off_;
  if (!put_off_) {
    n += payloads_.empty() ? 0 : 1;
    if (read_payloads() && (any_bulk_.load(std::memory_order_acquire) || !bulk_peers_.empty()))
      n += pump_bulk();
    if (payloads || !payloads_.empty()) let_others_run();
  }
  if (polls_ % 16 == 0 || n > 0) n += attend(steady::now());
  if (owing_much_ || polls_ % polls_between_acknowledgements == 0)
    n += acknowledge(polls_ % polls_between_acknowledgements == 0);
  return n + deliver();
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

// Between chunks, where there are fewer cores than busy threads: whoever waits for a message goes
// on at once. Where that costs a turn of a thread that never waits, it is rarely done.
void backend::let_others_run() {
  constexpr auto brief = 200us;
  constexpr auto rarely = 50ms;
  const auto before = steady::now();
  if (before < yields_at_) return;
  sched_yield();
  if (const auto after = steady::now(); after - before > brief) yields_at_ = after + rarely;
}

// After a chunk: has something come, of the peer that was heard last?
bool backend::glance() {
  if (hot_ != 0) read(hot_, chunk_size);
  return deliver() > 0;
}

// In turns, since epoll tells of them in the same order each time. False: something has come that
// somebody may wait for.
bool backend::read_payloads() {
  for (unsigned i = 0; i < chunks_at_once && i < payloads_.size(); ++i) {
    read(payloads_[payload_turn_++ % payloads_.size()], chunk_size);
    if (glance()) return false;
  }
  return true;
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
            const std::lock_guard lock(p.mutex);
            s->writable();
            if (p.messages == s) {
              p.wants_write = false;
              rewatch(id, s->fd(), EPOLLIN);
              flush(p);
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
          if (targets_.contains(id)) hot_ = id;
        }
        break;
      }
    }
  }
  return n;
}

// Reads what a stream has.
unsigned backend::read(std::uint64_t id, std::size_t most) {
  const auto at = targets_.find(id);
  if (at == targets_.end()) return 0;
  const auto s = at->second.flows;
  auto& p = *at->second.of;
  unsigned n = 0;
  std::string why;
  const auto outcome = receive_from(p, *s, most, n, why);
  if (outcome == stream::outcome::ended || outcome == stream::outcome::broken) {
    broke(p, s, why);
    return n + 1;
  }
  if (p.left) {
    take_what_is_left(p);
    lose(p, it_left());
  }
  return n;
}

// A peer that sends what makes no sense is lost: though it has the secret, another connection would
// not help.
stream::outcome backend::receive_from(peer& p, stream& s, std::size_t most, unsigned& count,
                                      std::string& why) {
  reading_ = &p;
  from_ = &s;
  const auto before = static_cast<std::ptrdiff_t>(ready_.size());
  auto outcome = stream::outcome::drained;
  try {
    outcome = s.receive(*this, most, count, why);
  } catch (const std::exception& e) {
    lose(p, {loss_kind::broken, fmt::format("it sends what is malformed: {}", e.what())});
    ++count;
  }
  // This node has closed the connection: nothing more of it is delivered.
  if (p.status != peer::state::live) ready_.erase(ready_.begin() + before, ready_.end());
  if (count > 0) p.expected.store(p.parts.expected(), std::memory_order_release);
  if (outcome == stream::outcome::ended) why = "it closed the connection";
  return outcome;
}

// Before its connections are ended: what of its messages and payloads has come, its leave perhaps.
// So much and no more: it may go on sending.
void backend::take_what_is_left(peer& p) {
  const auto take = [&](stream& s, std::size_t most, int times) {
    auto outcome = stream::outcome::more;
    for (int i = 0; i < times && outcome == stream::outcome::more && p.messages; ++i) {
      unsigned n = 0;
      std::string why;
      outcome = receive_from(p, s, most, n, why);
    }
  };
  if (const auto messages = p.messages) take(*messages, read_at_once, 16);
  for (const auto& s : std::vector(p.bulk_in)) take(*s, chunk_size, 256);
}

// ---- Large payloads

unsigned backend::pump_bulk() {
  if (any_bulk_.exchange(false)) {
    bulk_peers_.clear();
    const std::lock_guard lock(mutex_);
    for (const auto& p : peers_.all())
      if (p->status != peer::state::gone && (p->bulk_unsent.load() > 0 || p->bulk_busy.load()))
        bulk_peers_.push_back(p.get());
  }
  unsigned n = 0;
  while (n < chunks_at_once && !bulk_peers_.empty()) {
    const auto nth = peer_turn_++ % bulk_peers_.size();
    const auto at = bulk_peers_.begin() + static_cast<std::ptrdiff_t>(nth);
    if (!pump_bulk(**at)) bulk_peers_.erase(at);
    ++n;
    if (glance()) break;
  }
  return n;
}

// Sends a chunk over the next of a peer's streams that takes one. False: there is nothing to do for
// it until something changes.
bool backend::pump_bulk(peer& p) {
  if (p.status == peer::state::gone || !p.messages || !p.open ||
      (p.bulk_unsent.load() == 0 && !p.bulk_busy.load()))
    return false;
  const auto streams = p.bulk_out.size();
  if (streams == 0) {
    if (p.bulk_dials == 0)
      for (unsigned i = 0; i < bulk_streams() && p.messages; ++i) dial(p, stream_kind::bulk, i, 0);
    return false;
  }
  p.bulk_busy.store(true);  // before the queue is found empty: for `idle`
  bool sent = false, more = false, busy = false, rest = false;
  for (std::size_t i = 0, first = p.bulk_turn; i < streams; ++i) {
    const auto nth = (first + i) % streams;
    const auto s = p.bulk_out[nth];
    if (!sent && !s->blocked() && fill(p, *s)) {
      sent = true;
      p.bulk_turn = nth + 1;
      std::string why;
      if (!s->flush(why)) {
        broke(p, s, why);
        return false;
      }
      if (s->blocked()) rewatch(s->id, s->fd(), EPOLLIN | EPOLLOUT);
    }
    busy = busy || !s->empty();
    more = more || !s->blocked();
    rest = rest || (!s->blocked() && !s->empty());  // it has become writable
  }
  p.bulk_busy.store(busy);
  // What is blocked goes on when it can be written.
  return rest || (more && p.bulk_unsent.load() > 0);
}

// Adds the next chunk to a stream, if it has sent all. False: it has nothing to send.
bool backend::fill(peer& p, stream& s) {
  const std::lock_guard lock(p.bulk_mutex);
  if (s.empty() && !p.bulk.empty()) {
    const auto next = next_payload(p);
    const auto& payload = next->message->payloads[next->index];
    const auto size = std::min(chunk_size, payload.size - next->next);
    record_head head;
    head.kind = record_kind::chunk;
    head.attached = static_cast<std::uint32_t>(size);
    head.sequence = next->message->sequence;
    head.order = payload.size;
    head.expected = next->next;
    head.count = next->index;
    head.place = static_cast<std::uint8_t>(payload.place.where);
    head.device = payload.place.device;
    s.add({head, payload.data + next->next, next->message});
    next->next += size;
    if (next->next == payload.size) {
      p.bulk_unsent.fetch_sub(1);
      p.bulk.erase(next);
    }
  }
  return !s.empty();
}

// ---- Acknowledgements

unsigned backend::acknowledge(bool all) {
  unsigned n = 0;
  owing_much_ = false;
  std::erase_if(owing_, [&](peer* p) {
    if (!all && p->owed_messages < most_owed_messages && p->owed_bytes < most_owed_bytes)
      return false;
    const auto expected = p->parts.expected();
    p->expected.store(expected, std::memory_order_release);
    const std::lock_guard lock(p->mutex);
    if (p->messages && p->open && expected > p->told.load(std::memory_order_relaxed)) {
      record_head head;
      head.kind = record_kind::acknowledgement;
      head.expected = expected;
      p->told.store(expected, std::memory_order_relaxed);
      p->messages->add({head, nullptr, nullptr});
      flush(*p);
      ++n;
    }
    p->owing = false;
    p->owed_messages = p->owed_bytes = 0;
    return true;
  });
  return n;
}

// Messages of this node to itself need no connection: payloads are copied, as they would be.
unsigned backend::take_own() {
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
  const auto n = static_cast<unsigned>(ready_.size() + lost_.size());
  std::uint64_t bytes = 0;
  for (const auto& message : ready_) {
    bytes += message.envelope.size();
    for (const auto& payload : message.payloads) bytes += payload.size;
  }
  messages_received_.fetch_add(ready_.size(), std::memory_order_relaxed);
  bytes_received_.fetch_add(bytes, std::memory_order_relaxed);
  for (auto& message : ready_) sink_.on_message(std::move(message));
  ready_.clear();
  for (auto& [rank, why] : std::exchange(lost_, {})) sink_.on_peer_lost(rank, std::move(why));
  return n;
}

bool backend::arm() {
  acknowledge(true);
  if (any_orders_.load(std::memory_order_acquire) || any_own_.load() ||
      any_bulk_.load(std::memory_order_acquire) || !bulk_peers_.empty() || !ready_.empty() ||
      !lost_.empty())
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
  return true;
}

}  // namespace troupe::transport::tcp
