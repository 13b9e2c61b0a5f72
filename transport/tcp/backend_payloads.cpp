// Large payloads: chunks are read and sent in turns with all else, on the progressing thread.
#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>

#include "troupe/transport/tcp/backend.hpp"

namespace troupe::transport::tcp {

namespace {

using namespace std::chrono_literals;

// Read and sent before all else has its turn, while messages are rare.
constexpr unsigned chunks_at_once = 2;
// Messages with fewer chunks in between are frequent, until so many have gone without one; one of
// `largest_chunk` counts as two. A stream of payloads alone has its own messages, one or two for
// each payload.
constexpr unsigned chunks_until_rare = 8;
// Smaller payloads go in the largest chunks: there are few.
constexpr std::size_t least_divided = 256 * 1024;
// Longer than a chunk takes. What else has its turn in between, messages wait for that anyway.
constexpr auto long_turn = 100us;
constexpr std::size_t most_compared = 64;

// The payload that the next chunk is of; `end`: there is none, or acknowledgements have to come
// first, since the other end takes no message that is further ahead of those it has. Every second
// one is of that with the least left to send: so a small payload does not wait for all of a large
// one, and a large one goes on whatever else comes. Under the peer's bulk mutex.
std::deque<bulk_payload>::iterator next_payload(peer& p, std::uint64_t window) {
  const auto within = [&](const bulk_payload& one) {
    return one.message->sequence < p.confirmed + window;
  };
  if (p.bulk.empty()) return p.bulk.end();
  const auto first = p.bulk.begin();  // of the oldest message
  p.window_full = !within(*first);
  if (p.window_full) return p.bulk.end();
  p.smallest_next = !p.smallest_next;
  if (p.smallest_next || p.bulk.size() == 1) return first;
  const auto left = [](const bulk_payload& one) {
    return one.message->payloads[one.index].size - one.next;
  };
  const auto some = std::min<std::size_t>(p.bulk.size(), most_compared);
  const auto smallest =
      std::ranges::min_element(first, first + static_cast<std::ptrdiff_t>(some), {}, left);
  return within(*smallest) ? smallest : first;
}

}  // namespace

// Between chunks, where there are fewer cores than busy threads: whoever waits for a message goes
// on at once.
void backend::let_others_run() { yield(yields_at_, 50ms); }

// After a message, which has woken somebody perhaps, on this processor perhaps: the kernel would
// let a thread that is always busy finish its slice of some milliseconds.
void backend::let_receiver_run() { yield(yields_to_receiver_at_, 0ms); }

// Not before `at`. Where it costs a turn of a thread that never waits, not for `pause` afterwards,
// nor for as long as it took: no more than half of the time goes to that thread.
void backend::yield(steady::time_point& at, steady::duration pause) {
  constexpr auto brief = 200us;
  const auto before = steady::now();
  if (before < at) return;
  sched_yield();
  if (const auto after = steady::now(); after - before > brief)
    at = after + std::max<steady::duration>(pause, after - before);
}

// Messages that came with few chunks in between: the next one will not be long.
bool backend::messages_are_frequent() const noexcept {
  return frequent_ && chunks_since_message_ < chunks_until_rare;
}

void backend::count_message() noexcept {
  frequent_ = chunks_since_message_ < chunks_until_rare;
  chunks_since_message_ = 0;
}

// Bytes of the next chunk of a payload: few while messages are frequent, since the next one waits
// until the chunk is done, here and at the other end. One of `largest_chunk` takes some 60 us.
std::size_t backend::next_chunk(std::size_t payload) noexcept {
  const bool small = payload >= least_divided && messages_are_frequent();
  if (chunks_since_message_ < chunks_until_rare) chunks_since_message_ += small ? 1 : 2;
  if (!small) return largest_chunk;
  const auto now = steady::now();
  const auto last = std::exchange(last_chunk_, now);
  return now - last > long_turn ? medium_chunk : small_chunk;
}

// After a chunk: has something come from the peer that has sent last?
bool backend::glance() {
  if (hot_ != 0) read(hot_, largest_chunk);
  return deliver() > 0;
}

// In the order of their numbers, since epoll reports a part of them each time. False: something has
// come that somebody may wait for.
bool backend::read_payloads() {
  std::ranges::sort(payloads_);
  const std::size_t most = messages_are_frequent() ? 1 : chunks_at_once;
  for (std::size_t i = 0; i < most && i < payloads_.size(); ++i) {
    const auto next = std::ranges::upper_bound(payloads_, last_read_);
    last_read_ = next == payloads_.end() ? payloads_.front() : *next;
    read(last_read_, largest_chunk);
    if (glance()) return false;
  }
  return true;
}

unsigned backend::pump_bulk() {
  if (any_bulk_.exchange(false)) {
    bulk_peers_.clear();
    const std::lock_guard lock(mutex_);
    for (const auto& p : peers_.all())
      if (p->status != peer::state::gone && (p->bulk_unsent.load() > 0 || p->bulk_busy.load()))
        bulk_peers_.push_back(p.get());
  }
  unsigned n = 0;
  for (const unsigned most = messages_are_frequent() ? 1 : chunks_at_once;
       n < most && !bulk_peers_.empty();) {
    const auto nth = peer_turn_++ % bulk_peers_.size();
    const auto at = bulk_peers_.begin() + static_cast<std::ptrdiff_t>(nth);
    bool sent = false;
    if (!pump_bulk(**at, sent)) bulk_peers_.erase(at);
    if (!sent) continue;
    ++n;
    if (glance()) break;
  }
  return n;
}

// Sends a chunk over the next of a peer's streams that takes one, and says whether it did. False:
// there is nothing to do for the peer until something changes.
bool backend::pump_bulk(peer& p, bool& sent) {
  if (p.status == peer::state::gone || !p.messages || !p.open ||
      (p.bulk_unsent.load() == 0 && !p.bulk_busy.load()))
    return false;
  const auto streams = p.bulk_out.size();
  if (streams == 0) {
    if (p.bulk_dials == 0 && p.bulk_again.empty())
      for (unsigned i = 0; i < bulk_streams() && p.messages; ++i) dial(p, stream_kind::bulk, i, 0);
    return false;
  }
  p.bulk_busy.store(true);  // before the queue is found empty: for `idle`
  bool more = false, busy = false, rest = false;
  for (std::size_t i = 0, first = p.bulk_turn; i < streams; ++i) {
    const auto nth = (first + i) % streams;
    const auto s = p.bulk_out[nth];
    if (!sent && !s->blocked() && fill(p, *s)) {
      sent = true;
      p.bulk_turn = nth + 1;
      std::string why;
      stream::sent_records sent;
      if (!s->flush(why, sent)) {
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
  // What is blocked goes on when it can be written; what waits for acknowledgements, with those.
  return sent && (rest || (more && p.bulk_unsent.load() > 0));
}

// Adds the next chunk to a stream, if it has sent all. False: it has nothing to send.
bool backend::fill(peer& p, stream& s) {
  const std::lock_guard lock(p.bulk_mutex);
  const auto next = s.empty() ? next_payload(p, options_.window) : p.bulk.end();
  if (next != p.bulk.end()) {
    const auto& payload = next->message->payloads[next->index];
    const auto size = std::min(next_chunk(payload.size), payload.size - next->next);
    record_head head;
    head.kind = record_kind::chunk;
    head.attached = static_cast<std::uint32_t>(size);
    head.sequence = next->message->sequence;
    head.order = payload.size;
    head.expected = next->next;
    head.count = next->index;
    head.place = static_cast<std::uint8_t>(payload.place.where);
    head.device = payload.place.device;
    const bool frozen = payload.frozen && !p.copies.load(std::memory_order_relaxed);
    s.add({head, payload.data + next->next, next->message, frozen});
    next->next += size;
    if (next->next == payload.size) {
      p.bulk_unsent.fetch_sub(1);
      p.bulk.erase(next);
    }
  }
  return !s.empty();
}

}  // namespace troupe::transport::tcp
