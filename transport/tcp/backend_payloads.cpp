// Large payloads: chunks are read and sent in turns with all else, by the progressing thread and,
// if that is asked for, by a second one beside it.
#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <system_error>

#include "troupe/messages/base/log.hpp"
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

// The thread that takes every other chunk; null where there is none. One core more is busy then.
chunk_thread* backend::second_thread() {
  if (options_.chunk_threads < 2 || no_second_) return nullptr;
  if (!second_) try {
      second_ = std::make_unique<chunk_thread>();
    } catch (const std::system_error& e) {
      no_second_ = true;
      log().warn("rank {}: large tensors are sent and received by one thread: {}", options_.rank,
                 e.what());
    }
  return second_.get();
}

// In the order of their numbers, since epoll reports a part of them each time.
std::uint64_t backend::next_to_read() {
  const auto next = std::ranges::upper_bound(payloads_, last_read_);
  return last_read_ = next == payloads_.end() ? payloads_.front() : *next;
}

// From one stream with payloads or, by two threads, from two. Returns their number.
unsigned backend::read_payloads(std::size_t most) {
  auto* const second = most > 1 && payloads_.size() > 1 ? second_thread() : nullptr;
  const auto first = next_to_read();
  auto one = reading_of(first);
  auto other = second && one ? reading_of(next_to_read()) : std::nullopt;
  // Two incarnations of a rank tell their messages apart by nothing.
  const bool apart = other && (one->of == other->of || one->of->rank != other->of->rank);
  if (!apart) {
    read(first, largest_chunk);
    if (!other) return 1;
    read(last_read_, largest_chunk);
    return 2;
  }
  const auto before = ready_.size();
  second->both([&] { receive(*one, largest_chunk, true); },
               [&] { receive(*other, largest_chunk, true); });
  settle(*one, before);
  settle(*other, before);
  received(*one);
  received(*other);
  return 2;
}

// False: something has come that somebody may wait for.
bool backend::read_payloads() {
  std::ranges::sort(payloads_);
  const std::size_t most =
      std::min<std::size_t>(messages_are_frequent() ? 1 : chunks_at_once, payloads_.size());
  for (std::size_t n = 0; n < most;) {
    n += read_payloads(most - n);
    if (glance()) return false;
  }
  return true;
}

// Sends some chunks.
unsigned backend::pump_bulk() {
  if (any_bulk_.exchange(false)) {
    bulk_peers_.clear();
    const std::lock_guard lock(mutex_);
    for (const auto& p : peers_.all())
      if (p->status != peer::state::gone && (p->bulk_unsent.load() > 0 || p->bulk_busy.load()))
        bulk_peers_.push_back(p.get());
  }
  const unsigned most = messages_are_frequent() ? 1 : chunks_at_once;
  unsigned n = 0;
  while (n < most) {
    auto one = next_to_write(nullptr);
    if (!one) break;
    auto* const second = n + 1 < most ? second_thread() : nullptr;
    auto other = second ? next_to_write(one->to.get()) : std::nullopt;
    if (other) {
      second->both([&] { write(*one); }, [&] { write(*other); });
    } else {
      write(*one);
    }
    written(*one);
    if (other) written(*other);
    n += other ? 2 : 1;
    if (glance()) break;
  }
  return n;
}

// The peers take turns. `beside` is a stream that is written already. Nothing: nobody has anything
// to send, until something changes, or but for that stream.
std::optional<backend::writing> backend::next_to_write(const stream* beside) {
  for (auto left = bulk_peers_.size(); left > 0; --left) {
    const auto nth = peer_turn_++ % bulk_peers_.size();
    auto& p = *bulk_peers_[nth];
    if (auto s = filled_stream(p, beside)) return writing{&p, std::move(s)};
    if (!beside) bulk_peers_.erase(bulk_peers_.begin() + static_cast<std::ptrdiff_t>(nth));
  }
  return std::nullopt;
}

// The next of a peer's streams that takes a chunk, with that chunk; null: there is none to send, or
// none that can be written.
std::shared_ptr<stream> backend::filled_stream(peer& p, const stream* beside) {
  if (p.status == peer::state::gone || !p.messages || !p.open ||
      (p.bulk_unsent.load() == 0 && !p.bulk_busy.load()))
    return nullptr;
  const auto streams = p.bulk_out.size();
  if (streams == 0) {
    if (p.bulk_dials == 0 && p.bulk_again.empty())
      for (unsigned i = 0; i < bulk_streams() && p.messages; ++i) dial(p, stream_kind::bulk, i, 0);
    return nullptr;
  }
  p.bulk_busy.store(true);  // before the queue is found empty: for `idle`
  for (std::size_t i = 0, first = p.bulk_turn; i < streams; ++i) {
    const auto nth = (first + i) % streams;
    const auto& s = p.bulk_out[nth];
    if (s.get() == beside || s->blocked() || !fill(p, *s)) continue;
    p.bulk_turn = nth + 1;
    return s;
  }
  if (!beside) has_more_to_write(p);
  return nullptr;
}

// On the progressing thread, or on another one beside it.
void backend::write(writing& one) noexcept {
  try {
    one.broken_stream = !one.to->flush(one.why, one.sent);
  } catch (const std::exception& e) {
    one.broken_stream = true;
    one.why = e.what();
  }
}

void backend::written(writing& one) {
  auto& p = *one.of;
  if (one.broken_stream) broke(p, one.to, one.why);
  if (!one.broken_stream && one.to->blocked())
    rewatch(one.to->id, one.to->fd(), EPOLLIN | EPOLLOUT);
  if (!has_more_to_write(p)) std::erase(bulk_peers_, &p);
}

// What is blocked goes on when it can be written; what waits for acknowledgements, with those.
bool backend::has_more_to_write(peer& p) {
  bool more = false, busy = false, rest = false;
  for (const auto& s : p.bulk_out) {
    busy = busy || !s->empty();
    more = more || !s->blocked();
    rest = rest || (!s->blocked() && !s->empty());  // it has become writable
  }
  p.bulk_busy.store(busy);
  return rest || (more && p.bulk_unsent.load() > 0);
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
