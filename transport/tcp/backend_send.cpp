// Sending, on any thread: small messages are written at once, large payloads are queued for the
// progressing thread.
#include <fmt/format.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/tcp/backend.hpp"

namespace troupe::transport::tcp {

namespace {

// A smaller payload goes with the messages, however many there are: a chunk of its own would take
// longer.
constexpr std::size_t least_apart = 4 * 1024;

}  // namespace

bool backend::send(rank_t rank, std::uint64_t order, frame&& envelope,
                   std::vector<outgoing_payload>&& payloads) {
  if (payloads.size() > max_payloads)
    throw invalid_argument(
        fmt::format("a message can have {} payloads, not {}", max_payloads, payloads.size()));
  for (const auto& one : payloads)
    if (one.place.where != memory_place::kind::host)
      throw transport_error("the TCP transport carries host memory only");
  if (envelope.size() > UINT32_MAX)
    throw invalid_argument("an envelope of 4 GiB or more cannot be sent");
  auto* const p = peers_.find(rank);
  if (!p) throw transport_error(rank_name(rank) + " was never added");
  std::uint64_t bytes = envelope.size();
  for (const auto& one : payloads) bytes += one.size;
  if (options_.freezes_payloads && options_.protection == stream_protection::authenticate &&
      !p->copies.load(std::memory_order_relaxed))
    // A payload that nobody changes is authenticated and sent where it lies, without a copy of its
    // own.
    for (auto& one : payloads)
      if (one.size >= options_.bulk_threshold) one.settle();
  bool more = true;
  // Dropped without the lock: it may be answered, and these the last, before this thread goes on.
  retransmit_queue::message kept;
  stream::sent_records sent;
  {
    const std::lock_guard lock(p->mutex);
    if (p->status != peer::state::live) throw peer_lost(rank_name(rank) + " is lost: " + p->reason);
    auto m = std::make_shared<sent_message>();
    m->sequence = p->next_sequence.load(std::memory_order_relaxed);
    m->order = order;
    m->envelope = std::move(envelope);
    m->payloads = std::move(payloads);
    kept = std::move(m);
    // Before it is written: see `note_acknowledgement`.
    p->next_sequence.store(kept->sequence + 1, std::memory_order_release);
    const bool small =
        p->open && kept->payloads.empty() && p->messages->takes_small(kept->envelope.size());
    // On its way before this thread does anything else for it.
    if (small) more = send_small(*p, *kept, sent);
    p->unacknowledged.keep(kept);
    // After `keep`; `take_own` clears it and then looks. What that look misses, sets it again: the
    // lock of `unacknowledged` orders the two.
    if (rank == options_.rank) any_own_.store(true, std::memory_order_release);
    if (small) {
      // Done.
    } else if (p->open) {
      more = transmit(*p, kept);
      more = flush(*p, sent) || more;
    } else if (rank != options_.rank && !p->wanted.exchange(true)) {
      post({p, order::kind::call});
    }
  }
  messages_sent_.fetch_add(1, std::memory_order_relaxed);
  bytes_sent_.fetch_add(bytes, std::memory_order_relaxed);
  return more;
}

// The head of a message, but for the size of its envelope. Under the peer's mutex.
record_head backend::head_of(peer& p, const sent_message& m) {
  record_head head;
  head.kind = record_kind::message;
  head.sequence = m.sequence;
  head.order = m.order;
  head.expected = p.expected.load(std::memory_order_acquire);  // see peer.hpp
  head.count = static_cast<std::uint32_t>(m.payloads.size());
  p.acknowledged.store(head.expected, std::memory_order_relaxed);
  return head;
}

// Hot path: neither a queue nor memory, if the kernel takes it whole. True: not all of it went.
// Under the peer's mutex.
bool backend::send_small(peer& p, const sent_message& m, stream::sent_records& sent) {
  auto head = head_of(p, m);
  head.size = static_cast<std::uint32_t>(m.envelope.size());
  std::string why;
  return flushed(p, p.messages->send_small(head, m.envelope.bytes(), why, sent), std::move(why));
}

// Adds a message to the connection, and its large payloads to the queue for the bulk streams. True:
// there are some. Under the peer's mutex.
bool backend::transmit(peer& p, const retransmit_queue::message& m) {
  const auto put = [&](record_head head, const std::byte* data, std::size_t size) {
    (size <= largest_body ? head.size : head.attached) = static_cast<std::uint32_t>(size);
    p.messages->add({head, data, m});
  };
  put(head_of(p, *m), m->envelope.data(), m->envelope.size());
  bool bulk = false;
  // Many small ones would keep later messages waiting as one large one does.
  const std::size_t most_inline = 2 * options_.bulk_threshold;
  std::size_t inline_bytes = 0;
  for (std::uint32_t i = 0; i < m->payloads.size(); ++i) {
    const auto& one = m->payloads[i];
    const bool too_many = inline_bytes + one.size > most_inline && one.size >= least_apart;
    if (one.size > 0 && (one.size >= options_.bulk_threshold || too_many)) {
      const std::lock_guard lock(p.bulk_mutex);
      p.bulk.push_back({m, i, 0});
      p.bulk_unsent.fetch_add(1);
      bulk = true;
      continue;
    }
    record_head part;
    part.kind = record_kind::payload;
    part.sequence = m->sequence;
    part.order = one.size;
    part.count = i;
    part.place = static_cast<std::uint8_t>(one.place.where);
    part.device = one.place.device;
    inline_bytes += one.size;
    put(part, one.data, one.size);
  }
  // Pairs with the exchange in `pump_bulk`: the payloads are in `bulk_unsent` by now.
  if (bulk) any_bulk_.store(true, std::memory_order_release);
  return bulk;
}

// Writes what is to be written. True: not all of it went. Under the peer's mutex; `sent` is dropped
// after it.
bool backend::flush(peer& p, stream::sent_records& sent) {
  std::string why;
  return flushed(p, p.messages->flush(why, sent), std::move(why));
}

// After its messages were written: `done` false, the connection is broken.
bool backend::flushed(peer& p, bool done, std::string&& why) {
  if (!done) {
    post({&p, order::kind::broke, p.messages, std::move(why)});
    p.open = false;
    return true;
  }
  if (p.messages->empty()) return false;
  if (!p.wants_write) {
    p.wants_write = true;
    if (!rewatch(p.messages->id, p.messages->fd(), EPOLLIN | EPOLLOUT))
      return flushed(p, false, fmt::format("epoll takes no descriptor: {}", std::strerror(errno)));
  }
  return true;
}

}  // namespace troupe::transport::tcp
