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

// Without a message in between. A large payload alone brings two messages in hundreds of chunks.
constexpr unsigned chunks_until_quiet = 8;
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

// Bytes of the next chunk that is sent, or read: few while messages come, since the next one waits
// until the chunk is done. One of `largest_chunk` takes some 20 us.
std::size_t backend::next_chunk() noexcept {
  if (chunks_since_message_ >= chunks_until_quiet) return largest_chunk;
  ++chunks_since_message_;
  return chunk_unit;
}

// After a chunk: has something come from the peer that has sent last?
bool backend::glance() {
  if (hot_ != 0) read(hot_, largest_chunk);
  return deliver() > 0;
}

// A chunk of one stream before all else has its turn. In turns, since epoll reports them in the
// same order each time. False: something has come that somebody may wait for.
bool backend::read_payloads() {
  if (payloads_.empty()) return true;
  read(payloads_[payload_turn_++ % payloads_.size()], next_chunk());
  return !glance();
}

unsigned backend::pump_bulk() {
  if (any_bulk_.exchange(false)) {
    bulk_peers_.clear();
    const std::lock_guard lock(mutex_);
    for (const auto& p : peers_.all())
      if (p->status != peer::state::gone && (p->bulk_unsent.load() > 0 || p->bulk_busy.load()))
        bulk_peers_.push_back(p.get());
  }
  if (bulk_peers_.empty()) return 0;
  const auto nth = peer_turn_++ % bulk_peers_.size();
  const auto at = bulk_peers_.begin() + static_cast<std::ptrdiff_t>(nth);
  if (!pump_bulk(**at)) bulk_peers_.erase(at);
  glance();
  return 1;
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
    const auto size = std::min(next_chunk(), payload.size - next->next);
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

}  // namespace troupe::transport::tcp
